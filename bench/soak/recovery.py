"""A disturbance of the product, and the time of its recovery."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.soak.observer import RunState


@dataclass
class Disturbance:
    """A disturbance under way.

    Attributes:
        kind: its name in the report.
        undo: ends it, by `until` (monotonic) at the latest; None if it is over immediately.
        recovered: returns True if the product is as before.
        affected: earlier states of the runs whose progress it may delay.
        exclusive: no other disturbance may begin before it has recovered.
    """

    kind: str
    recovered: Callable[[], bool]
    affected: list[RunState]
    undo: Callable[[], None] | None = None
    until: float = 0.0
    exclusive: bool = False
    began: float = field(default_factory=time.monotonic)
    ended: float = 0.0
    recovered_at: float | None = None

    @property
    def recovery(self) -> float | None:
        """Seconds from its end to the recovery."""
        return None if self.recovered_at is None else self.recovered_at - (self.ended or self.began)
