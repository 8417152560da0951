"""How a field of the launch form is rendered. Which fields there are is decided in webapp.runs.launch.form."""

from __future__ import annotations

from functools import lru_cache

from django import template
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from webapp.runs.launch.form import Setting

register = template.Library()

LONGEST_KEPT = 200
"""Characters of a value whose field is kept: clones bring texts of any length."""


@register.simple_tag(takes_context=True)
def field_of(context: template.Context, setting: Setting) -> SafeString:
    """The setting with its label, its help and room for what is wrong with it.

    More than a hundred stand in a form, nearly all as the preset has them: each of those is rendered only once.
    """
    word = context.get("base_word") or "preset"
    usual = not setting.differs and not setting.error and len(setting.value) <= LONGEST_KEPT
    return _kept(setting, word) if usual else _rendered(setting, word)


def _rendered(setting: Setting, base_word: str) -> SafeString:
    return render_to_string("runs/_setting.html", {"setting": setting, "base_word": base_word})


_kept = lru_cache(maxsize=1024)(_rendered)
