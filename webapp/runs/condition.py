"""Condition of a run's policy in one word, as headers, lists, tab titles, comparisons and the API state it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LABELS = {"watch": "At risk", "trapped": "Trapped"}
"""States of the Echo Trap detector that are worth a word wherever a run is named; the others are healthy."""


@dataclass(frozen=True)
class Condition:
    """Trouble of a policy, and the iteration in which the detector said so first.

    Attributes:
        state: a key of LABELS.
        since: iteration of the alarm that stands.
    """

    state: str
    since: int

    @property
    def label(self) -> str:
        """One word, e.g. “Trapped”; static/js/live/run_header.js writes the same."""
        return LABELS[self.state]

    @property
    def text(self) -> str:
        """E.g. “Trapped since iteration 143”."""
        return f"{self.label} since iteration {self.since}"


def condition_of(alarm: Mapping[str, Any] | None) -> Condition | None:
    """The condition after the alarm that stands (its state and iteration); None for a healthy or unjudged policy."""
    return Condition(alarm["state"], alarm["iteration"]) if alarm and alarm["state"] in LABELS else None
