"""Faults of a run as its pages list them: causes first, consequences under them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from trainer.journal.events import Fault
from trainer.metrics.fault_causes import CAUSES, FaultCause, consequences

UNKNOWN = FaultCause("Another fault", "A newer trainer reported it: update the site for an explanation.", "", "")


@dataclass
class ListedFault:
    """A fault with the description of its cause.

    Attributes:
        attempts: query string of the explorer for the attempts that show it; empty: none do.
        consequences: faults that it explains.
    """

    fault: Fault
    cause: FaultCause
    attempts: str = ""
    consequences: list[ListedFault] = field(default_factory=list)


def list_faults(stored: Sequence[Mapping[str, Any]]) -> list[ListedFault]:
    """Return the faults of a run that no other one explains, in the order in which they began.

    Args:
        stored: `Run.faults`.
    """
    faults = [Fault.model_validate(fault) for fault in stored]
    explained = consequences(faults)
    listed = {fault.cause: _listed(fault) for fault in faults}
    for consequence, cause in explained.items():
        listed[cause].consequences.append(listed[consequence])
    return [one for cause, one in listed.items() if cause not in explained]


def _listed(fault: Fault) -> ListedFault:
    cause = CAUSES.get(fault.cause, UNKNOWN)
    shown = {name: value for name, value in (("training_use", cause.use), ("sort", cause.sort)) if value}
    query = {"split": "train", "iteration_min": fault.since} | shown
    return ListedFault(fault, cause, urlencode(query) if shown else "")


def titles(stored: Sequence[Mapping[str, Any]]) -> str:
    """Return the titles of the causes in a line, without consequences."""
    return "; ".join(one.cause.title for one in list_faults(stored))
