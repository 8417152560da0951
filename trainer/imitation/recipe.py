"""Recipe of a warm-up: its steps and optimiser settings."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Recipe:
    """Optimiser steps of each stage, in order, and the settings of all stages.

    Attributes:
        copying_steps: steps on random tokens to copy.
        single_state_steps: steps on single states.
        steps: steps on complete, good demonstrations.
        refine_steps: further such steps after a warm restart of the learning rate.
        noisy_steps: steps on demonstrations with partly random actions.
        noise: share of random actions in those demonstrations.
        batch: demonstrated trajectories per step; a step on single states has twice as many.
        learning_rate: peak of the learning rate.
        seed: seed of the weights and the demonstrations.
    """

    steps: int
    batch: int
    copying_steps: int = 0
    single_state_steps: int = 0
    refine_steps: int = 0
    noisy_steps: int = 0
    noise: float = 0.0
    learning_rate: float = 2e-3
    seed: int = 0

    def facts(self) -> dict[str, float]:
        """Numbers by name, for a policy's record and its digest; the stage of copying is omitted if it has no steps."""
        numbers = asdict(self)
        return numbers if self.copying_steps else {name: numbers[name] for name in numbers if name != "copying_steps"}
