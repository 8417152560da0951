"""What goes with a batch through its update, and the numbers collected on the way. No model lives here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor


@dataclass
class TokenLogprobs:
    """(B, T) numbers of the policy (or reference) on the sampled tokens; 0 off the mask."""

    logprobs: Tensor
    entropies: Tensor


@dataclass
class UpdateTensors:
    """(B, T) numbers that go with a batch through its update.

    `old_logprobs` is what the ratio is taken to, `initial` are the reference's log-probabilities.
    """

    advantages: Tensor
    returns: Tensor
    old_values: Tensor
    old_logprobs: Tensor
    initial: Tensor | None

    def select(self, rows: Tensor, width: int) -> UpdateTensors:
        """The given rows, cut to this many tokens."""
        return self._each(lambda values: values[rows, :width])

    def to(self, device: torch.device) -> UpdateTensors:
        """The same on a device."""
        return self._each(lambda values: values.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> UpdateTensors:
        known: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        changed: dict[str, Any] = {name: None if values is None else change(values) for name, values in known.items()}
        return UpdateTensors(**changed)


COUNTS = ("update/steps", "update/skipped")


class StepMetrics:
    """Means over optimiser steps, and values that are taken once."""

    def __init__(self) -> None:
        self._lists: dict[str, list[float]] = defaultdict(list)
        self._once: dict[str, float] = {}

    def add(self, step: dict[str, float]) -> None:
        """The numbers of one more step."""
        for name, value in step.items():
            self._lists[name].append(value)

    def keep(self, name: str, value: float | None) -> None:
        """A number that is known once for the whole update; None is left out."""
        if value is not None:
            self._once[name] = value

    def result(self) -> dict[str, float]:
        """Means (sums where a count is meant) of everything finite."""
        found = {
            name: sum(values) if name in COUNTS else sum(values) / len(values) for name, values in self._lists.items()
        }
        return {name: value for name, value in (found | self._once).items() if abs(value) < float("inf")}
