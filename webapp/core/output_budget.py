"""Budgets of renderers, so that a text of some kilobytes cannot become a page of many megabytes.

Renderers that repeat or indent parts of their input count them here, and stop doing so once the budget is used up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import yaml

FREE = 100_000
"""Characters that any text may become, however short it is."""
SHARE = 4
"""Factor by which indented data may be longer than the data, if that exceeds FREE."""
_JSON_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|(?<![.\d])\d+(?=e)|Infinity|NaN')
"""A text, or what YAML writes otherwise: digits before an exponent, which need a point there, and no number."""
_YAML_NUMBERS = {"Infinity": ".inf", "NaN": ".nan"}
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


class OutputBudget:
    """Characters, cells or bytes that a renderer may still emit."""

    def __init__(self, size: int) -> None:
        self.rest = size

    def take(self, size: int) -> bool:
        """Return True if that many fit, and count them. Smaller ones may fit later."""
        if size > self.rest:
            return False
        self.rest -= size
        return True

    @property
    def is_closed(self) -> bool:
        return self.rest < 0

    def close(self) -> None:
        """Use up the rest of the budget."""
        self.rest = -1


class _Exceeded(Exception):
    """The text is longer than its budget."""


class _Dumper(yaml.SafeDumper):
    """Escapes characters in texts that a reader of YAML takes for line breaks, or refuses."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        style = '"' if _NOT_IN_YAML.search(data) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style)


_Dumper.add_representer(str, _Dumper.represent_str)


def json_text(value: Any, indent: int) -> str:
    """Return JSON, indented unless nesting would multiply the text; static/js/ui/turn_text.js does the same."""
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    budget = _budget_for(compact)
    chunks = json.JSONEncoder(ensure_ascii=False, indent=indent).iterencode(value)
    try:
        return "".join(_counted(chunks, budget))
    except _Exceeded:
        return compact


def yaml_text(value: Any) -> str:
    """Return YAML with indentation, or JSON (which is YAML) if it would be slow or nesting would multiply the text."""
    compact = json.dumps(value, ensure_ascii=False)
    stream = _LimitedStream(_budget_for(compact))
    try:
        if len(compact) > 2 * FREE:
            raise _Exceeded
        yaml.dump(value, stream, _Dumper, sort_keys=False, allow_unicode=True)
    except _Exceeded:
        compact = _JSON_NUMBER.sub(_as_in_yaml, compact)
        return _NOT_IN_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", compact) + "\n"
    return "".join(stream.chunks)


def _as_in_yaml(found: re.Match[str]) -> str:
    """Write a match of _JSON_NUMBER so that YAML reads the same."""
    return found[0] if found[0].startswith('"') else _YAML_NUMBERS.get(found[0], f"{found[0]}.0")


def _budget_for(compact: str) -> OutputBudget:
    return OutputBudget(max(FREE, SHARE * len(compact)))


def _counted(chunks: Iterable[str], budget: OutputBudget) -> Iterator[str]:
    for chunk in chunks:
        if not budget.take(len(chunk)):
            raise _Exceeded
        yield chunk


class _LimitedStream:
    """A text file in memory that raises _Exceeded."""

    def __init__(self, budget: OutputBudget) -> None:
        self.chunks: list[str] = []
        self._budget = budget

    def write(self, text: str) -> None:
        self.chunks += _counted([text], self._budget)
