"""A report's body as blocks: text as HTML, and references that are shown as embeds."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from django.utils.safestring import SafeString

from webapp.core import markdown
from webapp.reports.references import MAX_ROWS, Reference, find_address, reference_at

HEADING = 2
"""Level of a `#` heading: the title is the page's <h1>."""

MAX_ADDRESSES = 1000
"""Maximum number of addresses of this site that are resolved; later ones stay text."""

Block = SafeString | Reference


def blocks(body: str, hosts: Collection[str]) -> list[Block]:
    """Return the blocks in order. Only lines of top-level paragraphs, not of lists, quotes or code, are embeds."""
    text = body.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    paragraphs, environment = markdown.paragraphs(text)
    result: list[Block] = []
    pending: list[str] = []

    def flush() -> None:
        if any(line.strip() for line in pending):
            html = markdown.render("\n".join(pending), HEADING, environment)
            if html.strip():
                result.append(html)
        pending.clear()

    at, tried = 0, 0
    for paragraph in paragraphs:
        pending += lines[at : paragraph.start]
        for number in paragraph:
            line = lines[number]
            address = find_address(line, hosts) if tried < MAX_ADDRESSES else None
            tried += address is not None
            reference = None if address is None else reference_at(address)
            if reference is None:
                pending.append(markdown.linked(line))
            else:
                flush()
                _append(result, reference)
        at = paragraph.stop
    pending += lines[at:]
    flush()
    return result


def _append(result: list[Block], reference: Reference) -> None:
    """Append the reference; consecutive runs become rows of one table."""
    last = result[-1] if result else None
    if reference.kind == "runs" and isinstance(last, Reference) and last.kind == "runs" and not reference.caption:
        slugs = tuple(dict.fromkeys(last.slugs + reference.slugs))
        if len(slugs) <= MAX_ROWS:
            result[-1] = replace(last, slugs=slugs)
            return
    result.append(reference)


def references(body: str, hosts: Collection[str]) -> list[Reference]:
    """Return the references in a body, in order."""
    return [block for block in blocks(body, hosts) if isinstance(block, Reference)]
