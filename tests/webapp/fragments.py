"""Fragments of HTML in a page, whatever the white space between its tags."""

from __future__ import annotations

import re

_TAG = re.compile(r"\s*(<[^<>]*?)\s*>\s*")


def compact(html: str) -> str:
    """White space collapsed to one space, and removed next to tags."""
    return _TAG.sub(r"\1>", " ".join(html.split()))


def contains(html: str, fragment: str) -> bool:
    """Whether the page has the fragment, both in compact form."""
    return compact(fragment) in compact(html)
