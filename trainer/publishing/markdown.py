"""Markdown elements that contain untrusted text: tables, code blocks, YAML front matter."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml


def front_matter(data: Mapping[str, Any]) -> str:
    """Format YAML metadata between two lines of dashes."""
    text = yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True, width=10_000)
    return f"---\n{text}---\n\n"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a table; bars and line breaks in its cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return link_text(text).replace("|", "\\|")


def link_text(text: str) -> str:
    """Escape markup, and put the text in one line."""
    return re.sub(r"([\\`*_\[\]<>])", r"\\\1", " ".join(text.split()))


def fenced(text: str, language: str) -> str:
    """Format a code block with a fence that is longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
