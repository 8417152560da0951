"""Text of annotations: what a tag is called, who a comment names, and its safe HTML. Nothing is stored here."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from django.utils.html import format_html, urlize
from django.utils.safestring import SafeString, mark_safe

NAMED = re.compile(r"(?:^|(?<=[\s(\[,;]))@([\w.+-]+)", re.MULTILINE)
MAX_MENTIONS = 20


def normal_tag(text: str) -> str:
    """One spelling for each tag: lower case, single spaces, composed letters, no leading #."""
    return " ".join(unicodedata.normalize("NFKC", text).lower().replace("\0", "").split()).lstrip("#").strip()


def mentioned_names(text: str) -> list[str]:
    """Names after an @, each once, in lower case: candidates, whether or not such people exist."""
    names = [match[1].rstrip(".+-").lower() for match in NAMED.finditer(text)]
    return list(dict.fromkeys(name for name in names if name))[:MAX_MENTIONS]


def as_html(text: str, people: Iterable[str] = ()) -> SafeString:
    """The text escaped, web addresses clickable, names of mentioned `people` marked. Line breaks are left to CSS."""
    known = {name.lower() for name in people}
    parts: list[str] = []
    at = 0
    for match in NAMED.finditer(text):
        name = match[1].rstrip(".+-")
        if name.lower() in known:
            parts += [_linked(text[at : match.start()]), format_html('<b class="mention">@{}</b>', name)]
            at = match.start() + 1 + len(name)
    parts.append(_linked(text[at:]))
    return mark_safe("".join(parts))


def _linked(text: str) -> SafeString:
    return mark_safe(urlize(text, nofollow=True, autoescape=True))
