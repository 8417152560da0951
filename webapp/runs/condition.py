"""Condition of a run as a label for headers, lists, tab titles, comparisons and the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LABELS = {"watch": "At risk", "trapped": "Trapped"}
"""States of the Echo Trap detector that are shown next to a run's name; the others are healthy."""
SICK = "sick"
CONDITION_LABELS = LABELS | {SICK: "Sick"}
"""Labels of all conditions. A sick run has a fault of its environments, weights, numbers, texts or machine."""


@dataclass(frozen=True)
class Condition:
    """Trouble of a run, and the iteration in which it was first reported.

    Attributes:
        state: a key of CONDITION_LABELS.
        since: iteration of the current alarm, or of the earliest fault.
    """

    state: str
    since: int

    @property
    def label(self) -> str:
        """A short label, e.g. “Trapped”; static/js/live/run_header.js writes the same."""
        return CONDITION_LABELS[self.state]

    @property
    def text(self) -> str:
        """E.g. “Trapped since iteration 143”."""
        return f"{self.label} since iteration {self.since}"

    @property
    def detector(self) -> str:
        """Name of the detector that reported it."""
        return "Faults" if self.state == SICK else "Echo Trap"

    @property
    def anchor(self) -> str:
        """The part of the live page that explains it."""
        return "faults-title" if self.state == SICK else "trap-title"


def get_policy_condition(alarm: Mapping[str, Any] | None) -> Condition | None:
    """Return the condition that follows from the current alarm; None for a healthy or unjudged policy."""
    return Condition(alarm["state"], alarm["iteration"]) if alarm and alarm["state"] in LABELS else None


def get_condition(alarm: Mapping[str, Any] | None, faults: Sequence[Mapping[str, Any]]) -> Condition | None:
    """Return the worst trouble of a run: trapped, then sick, then at risk."""
    policy = get_policy_condition(alarm)
    if faults and (policy is None or policy.state != "trapped"):
        return Condition(SICK, min(fault["since"] for fault in faults))
    return policy
