"""The `term` tag: a word of the product with its definition."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from webapp.core.definitions import DEFINITIONS

register = template.Library()


@register.simple_tag(takes_context=True)
def term(context: template.Context, key: str, label: str = "") -> SafeString:
    """The term with a dotted underline; hovering or pressing it shows its definition.

    It is a button, so it cannot stand inside a link, a label or another button.

    Args:
        context: of the template.
        key: a key of `DEFINITIONS`.
        label: the words to show instead of the term itself.
    """
    definition = DEFINITIONS[key]
    request = context.get("request")
    number = getattr(request, "terms_shown", 0) + 1
    if request is not None:
        request.terms_shown = number  # one page may define a term twice: ids stay unique
    return format_html(
        '<button class="term" type="button" popovertarget="term-{0}" title="{2}">{1}</button>'
        '<span class="term-meaning" id="term-{0}" popover>{2}</span>',
        f"{key}-{number}",
        label or definition.term,
        definition.meaning,
    )
