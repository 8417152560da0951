"""Condition of a run's policy as a label for headers, lists, tab titles, comparisons and the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LABELS = {"watch": "At risk", "trapped": "Trapped"}
"""States of the Echo Trap detector that are shown next to a run's name; the others are healthy."""


@dataclass(frozen=True)
class Condition:
    """Trouble of a policy, and the iteration in which the detector first reported it.

    Attributes:
        state: a key of LABELS.
        since: iteration of the current alarm.
    """

    state: str
    since: int

    @property
    def label(self) -> str:
        """A short label, e.g. “Trapped”; static/js/live/run_header.js writes the same."""
        return LABELS[self.state]

    @property
    def text(self) -> str:
        """E.g. “Trapped since iteration 143”."""
        return f"{self.label} since iteration {self.since}"


def get_condition(alarm: Mapping[str, Any] | None) -> Condition | None:
    """Return the condition that follows from the current alarm; None for a healthy or unjudged policy."""
    return Condition(alarm["state"], alarm["iteration"]) if alarm and alarm["state"] in LABELS else None
