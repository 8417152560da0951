"""Markdown of users as safe HTML: CommonMark with tables, without raw HTML and images."""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping, Sequence
from functools import cache
from typing import Any

from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block.table import table
from markdown_it.token import Token

from webapp.core.output_budget import FREE, OutputBudget

HEADING = 3
"""Level of a `#` heading on pages with <h1> and <h2> headings."""
MAX_ADDRESS = 2_000
"""Maximum characters of the address and title of a link; longer links remain text."""
MAX_HTML = 1_000_000
"""Maximum bytes of HTML of a document."""
CUT = '<p class="soft">The rest of this text is not shown: as a page it would be too large.</p>'
MIN_CELLS = 5_000
"""Cells that the tables of a document may have; a longer document may have as many cells as characters."""
_BARE_ADDRESS = re.compile(r"^(\s{0,3})(https?://[^\s<>]+)\s*$")
_TARGETS, _CELLS, _HTML = "bytes of targets", "cells of tables", "bytes of HTML"

Environment = MutableMapping[str, Any]
"""Link definitions of a document and its budgets, shared by its parts."""


@cache
def _renderer() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "store_labels": True}).enable("table").disable("image")
    parser.block.ruler.at("table", _table_within_budget, {"alt": ["paragraph", "reference"]})
    return parser


def _table_within_budget(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse a table until one exceeds the budget with its cells: short rows are filled up with empty cells."""
    cells: OutputBudget = state.env[_CELLS]
    if cells.is_closed or not table(state, start, end, True):
        return False
    if silent:
        return True
    columns = state.src.count("|", state.bMarks[start], state.eMarks[start]) + 1
    last = next((line for line in range(start, end) if state.isEmpty(line)), end)
    if not cells.take(columns * (last - start)):
        cells.close()  # the lines of each further table are not counted again
        return False
    return table(state, start, end, False)


def render(text: str, heading: int = HEADING, environment: Environment | None = None) -> SafeString:
    """Return the text as safe HTML, with headings from level `heading`. Links of schemes that run code remain text.

    Links by reference also remain text once their targets are longer than the text, and tables with more cells than the
    text has characters. HTML of more than MAX_HTML bytes is cut between two blocks, with a note.
    """
    environment = _budgeted({}, text) if environment is None else environment
    tokens = _renderer().parse(text, environment)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + heading - 1)}"
        if token.children:
            token.children = list(_linked_within_budget(token.children, environment[_TARGETS]))
    html: list[str] = []
    budget: OutputBudget = environment[_HTML]
    for block in _top_level(tokens):
        if budget.is_closed:
            break
        part: str = _renderer().renderer.render(block, _renderer().options, environment)
        if not budget.take(len(part.encode())):
            budget.close()
            part = CUT
        html.append(part)
    return mark_safe("".join(html))  # raw HTML is off and everything else is escaped by the renderer


def _budgeted(environment: Environment, text: str) -> Environment:
    """Return the environment of a document with the budgets for one pass over its text."""
    environment[_TARGETS] = OutputBudget(max(FREE, len(text)))
    environment[_CELLS] = OutputBudget(max(MIN_CELLS, len(text)))
    environment[_HTML] = OutputBudget(MAX_HTML)
    return environment


def _linked_within_budget(tokens: Sequence[Token], targets: OutputBudget) -> Iterator[Token]:
    """Yield a paragraph's tokens. Each use of a link definition repeats its address and counts, as in cmark."""
    as_text = False
    for token in tokens:
        if token.type == "link_open":
            size = sum(len(str(value)) for value in token.attrs.values())
            as_text = size > MAX_ADDRESS or ("label" in token.meta and not targets.take(size))
            token.attrSet("rel", "nofollow noopener ugc")
        if not as_text:
            yield token
        elif token.type == "link_open":
            yield Token("text", "", 0, content="[")
        elif token.type == "link_close":
            yield Token("text", "", 0, content="]")
            as_text = False
        else:
            yield token


def _top_level(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield the tokens of each top-level block."""
    first = 0
    for number, token in enumerate(tokens, 1):
        if token.level == 0 and token.nesting <= 0:
            yield tokens[first:number]
            first = number


def paragraphs(text: str) -> tuple[list[range], Environment]:
    """Return the line numbers of top-level paragraphs, and the environment in which parts of the text are rendered."""
    environment = _budgeted({}, text)
    tokens: Sequence[Token] = _renderer().parse(text, environment)
    ranges = [
        range(*token.map) for token in tokens if token.type == "paragraph_open" and token.level == 0 and token.map
    ]
    return ranges, _budgeted(environment, text)


def linked(line: str) -> str:
    """Return the line; if it contains only a web address, as a link."""
    return _BARE_ADDRESS.sub(r"\1<\2>", line)
