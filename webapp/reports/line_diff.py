"""Line by line: what one version of a report has and another has not."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

MAX_LINES = 3000
"""Lines compared at most: the time grows with their square."""
AROUND = 2
"""Unchanged lines shown before and after a change."""


@dataclass(frozen=True)
class DiffLine:
    """A line of the comparison; a gap stands for unchanged lines that are left out."""

    kind: Literal["same", "removed", "added", "gap"]
    text: str

    @property
    def sign(self) -> str:
        return {"removed": "−", "added": "+"}.get(self.kind, "")


def line_diff(before: str, after: str) -> list[DiffLine]:
    """The changes from one text to the other; empty if they are the same."""
    left, right = before.splitlines()[:MAX_LINES], after.splitlines()[:MAX_LINES]
    lines: list[DiffLine] = []
    for group in SequenceMatcher(None, left, right, autojunk=True).get_grouped_opcodes(AROUND):
        if lines:
            lines.append(DiffLine("gap", "…"))
        for kind, low, high, start, end in group:
            if kind == "equal":
                lines += [DiffLine("same", line) for line in left[low:high]]
                continue
            lines += [DiffLine("removed", line) for line in left[low:high]]
            lines += [DiffLine("added", line) for line in right[start:end]]
    return lines
