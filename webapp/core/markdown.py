"""Markdown of users as safe HTML: CommonMark with tables, without raw HTML and images."""

from __future__ import annotations

import re
from collections.abc import MutableMapping, Sequence
from functools import cache
from typing import Any

from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

HEADING = 3
"""Level of a `#` heading on pages whose own headings are <h1> and <h2>."""
_BARE_ADDRESS = re.compile(r"^(\s{0,3})(https?://[^\s<>]+)\s*$")

Environment = MutableMapping[str, Any]
"""Link definitions of a document, shared by its parts."""


@cache
def _renderer() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")


def render(text: str, heading: int = HEADING, environment: Environment | None = None) -> SafeString:
    """The text as HTML. Links of schemes that run code stay text; raw HTML is escaped; headings begin at `heading`."""
    environment = {} if environment is None else environment
    tokens = _renderer().parse(text, environment)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + heading - 1)}"
        for child in token.children or []:
            if child.type == "link_open":
                child.attrSet("rel", "nofollow noopener ugc")
    html: str = _renderer().renderer.render(tokens, _renderer().options, environment)
    return mark_safe(html)  # raw HTML is off and everything else is escaped by the renderer


def paragraphs(text: str) -> tuple[list[range], Environment]:
    """Line numbers of the top-level paragraphs, and the link definitions of the text."""
    environment: Environment = {}
    tokens: Sequence[Token] = _renderer().parse(text, environment)
    found = [range(*token.map) for token in tokens if token.type == "paragraph_open" and token.level == 0 and token.map]
    return found, environment


def linked(line: str) -> str:
    """The line; one that holds only a bare web address becomes a link."""
    return _BARE_ADDRESS.sub(r"\1<\2>", line)
