"""Rendering of the fields of the launch form."""

from __future__ import annotations

from functools import lru_cache

from django import template
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from webapp.runs.launch.fields import Setting

register = template.Library()

MAX_CACHED_LENGTH = 200
"""Longest value whose field is cached: clones may have texts of any length."""


@register.simple_tag(takes_context=True)
def show_field(context: template.Context, setting: Setting) -> SafeString:
    """The setting with its label, help and error.

    A form has more than a hundred fields, most of them as in the preset: those are rendered once and cached.
    """
    word = context.get("base_word") or "preset"
    usual = not setting.differs and not setting.error and len(setting.value) <= MAX_CACHED_LENGTH
    return _cached(setting, word) if usual else _rendered(setting, word)


@register.simple_tag(takes_context=True)
def replaced_field(context: template.Context, setting: Setting) -> SafeString:
    """The setting as `show_field` shows it, to take the place of the one that the page has (htmx, out of band)."""
    return _rendered(setting, context.get("base_word") or "preset", replaces=True)


def _rendered(setting: Setting, base_word: str, *, replaces: bool = False) -> SafeString:
    context = {"setting": setting, "base_word": base_word, "replaces": replaces}
    return render_to_string("runs/_setting.html", context)


_cached = lru_cache(maxsize=1024)(_rendered)
