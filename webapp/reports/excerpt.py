"""Plain words of a report: its description in previews of its link, and the lines of a list."""

from __future__ import annotations

import html
import re
from collections.abc import Collection

from webapp.reports.blocks import blocks
from webapp.reports.references import Reference

_HEADING = re.compile(r"<h[1-6]>.*?</h[1-6]>", re.DOTALL)
_INLINE = re.compile(r"</?(?:strong|em|code|a)\b[^>]*>")
_TAG = re.compile(r"<[^>]*>")
MAX_LENGTH = 180


def excerpt(body: str, hosts: Collection[str], limit: int = MAX_LENGTH) -> str:
    """The beginning of its text, without headings, embeds and markup."""
    words: list[str] = []
    for block in blocks(body[:4000], hosts):
        if isinstance(block, Reference):
            continue
        words += html.unescape(_TAG.sub(" ", _INLINE.sub("", _HEADING.sub("", block)))).split()
        if sum(len(word) + 1 for word in words) > limit:
            break
    text = " ".join(words)
    return text if len(text) <= limit else text[:limit].rsplit(" ", 1)[0] + " …"
