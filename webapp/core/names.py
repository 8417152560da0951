"""Makes users' names for teams, rules and tokens safe for one line and for the subject of a mail."""

from __future__ import annotations

import re
import unicodedata


def one_line(text: str) -> str:
    """Return the text without line breaks and other control characters, and with single spaces."""
    return " ".join("".join(" " if unicodedata.category(char) in {"Cc", "Zl", "Zp"} else char for char in text).split())


_LINK = re.compile(r"\S*://\S*|\b(?:[\w-]+\.)+[a-z]{2,}\b(?:[/:?#]\S*)?", re.IGNORECASE)


def without_links(text: str) -> str:
    """Return the text without URLs and host names, which mail programs would show as links."""
    return one_line(_LINK.sub("…", text))
