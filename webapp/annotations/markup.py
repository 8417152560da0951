"""Normalised tags, @mentions in comments, and comments as safe HTML."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from django.utils.html import format_html, urlize
from django.utils.safestring import SafeString, mark_safe

MENTION_PATTERN = re.compile(r"(?:^|(?<=[\s(\[,;]))@([\w.+-]+)", re.MULTILINE)
MAX_MENTIONS = 20


def normal_tag(text: str) -> str:
    """Return the normal form of a tag: lower case, single spaces, NFKC, no leading #."""
    return " ".join(unicodedata.normalize("NFKC", text).lower().replace("\0", "").split()).lstrip("#").strip()


def mentioned_names(text: str) -> list[str]:
    """Return the distinct names after an @, in lower case; such users may not exist."""
    names = [match[1].rstrip(".+-").lower() for match in MENTION_PATTERN.finditer(text)]
    return list(dict.fromkeys(name for name in names if name))[:MAX_MENTIONS]


def comment_html(text: str, people: Iterable[str] = ()) -> SafeString:
    """Return the text as HTML, with links and marked names of mentioned `people`. CSS keeps the line breaks."""
    mentioned = {name.lower() for name in people}
    parts: list[str] = []
    at = 0
    for match in MENTION_PATTERN.finditer(text):
        name = match[1].rstrip(".+-")
        if name.lower() in mentioned:
            parts += [_linked(text[at : match.start()]), format_html('<b class="mention">@{}</b>', name)]
            at = match.start() + 1 + len(name)
    parts.append(_linked(text[at:]))
    return mark_safe("".join(parts))


def _linked(text: str) -> SafeString:
    return mark_safe(urlize(text, nofollow=True, autoescape=True))
