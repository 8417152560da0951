"""Interface of experiment trackers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.journal.events import GroupStarted, RunFinished, TrajectoryFinished, Turn

PROJECT = "echoscope"


@dataclass(frozen=True)
class TrackedRun:
    """The run that a tracker opens. `id` is new for a new run and the same for a resumed one."""

    folder: Path
    title: str
    config: Mapping[str, Any]
    id: str
    resumed: bool
    from_iteration: int


class Tracker(ABC):
    """A destination of metrics, and optionally of dialogues. Any method may raise its library's exceptions."""

    id: str

    @abstractmethod
    def metrics(self, iteration: int, values: Mapping[str, float]) -> None:
        """Log an iteration's values; there may be several calls for one iteration."""

    def dialogue(self, event: GroupStarted | Turn | TrajectoryFinished) -> None:  # noqa: B027 most take metrics only
        """Log a part of a dialogue, in the order of the journal."""

    @abstractmethod
    def finish(self, end: RunFinished | None) -> None:
        """Log the final summary and close; `end` is None if the run continues later."""
