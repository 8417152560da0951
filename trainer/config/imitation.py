"""Imitation sections of RunConfig: the SFT baseline and the warm-up of the pocket policy."""

from __future__ import annotations

from trainer.config.base import Section, setting


class SftConfig(Section):
    """Baseline for runs of kind sft: imitation of a solver, one optimiser step per iteration."""

    demonstrations: int = setting(
        1000,
        "Demonstrations to learn from.",
        unit="trajectories",
        source="paper, appendix C: 1,000",
        gt=0,
        le=1_000_000,
    )
    validation_demonstrations: int = setting(
        100,
        "Further demonstrations, held out for validation.",
        unit="trajectories",
        source="paper, appendix C: 100",
        formerly="held_out",
        ge=0,
        le=100_000,
    )
    max_solution_length: int = setting(
        100,
        "Maximum length of a demonstrated solution, as the solver estimates it at the start.",
        unit="actions",
        source="paper, appendix C: breadth-first search to depth 100",
        formerly="depth",
        gt=0,
        le=100_000,
    )
    only_successes: bool = setting(True, "Leave out demonstrations that do not succeed.")
    batch: int = setting(
        128,
        "Demonstrations per optimiser step.",
        unit="trajectories",
        source="paper, appendix C: 128",
        gt=0,
        le=65_536,
    )
    learning_rate: float = setting(1e-4, "Learning rate.", source="paper, appendix C: 1e-4", gt=0, le=1)


class WarmupConfig(Section):
    """Supervised fine-tuning of the pocket policy on a solver's demonstrations, before any RL.

    The defaults are the settings of the checkpoint that ships with the project; any others are built once and cached.
    """

    single_state_steps: int = setting(
        900, "Optimiser steps on single states.", unit="steps", formerly="lesson_steps", ge=0, le=100_000
    )
    steps: int = setting(450, "Optimiser steps on complete, good demonstrations.", unit="steps", ge=0, le=100_000)
    refine_steps: int = setting(
        700, "More of those steps after a warm restart of the learning rate.", unit="steps", ge=0, le=100_000
    )
    noisy_steps: int = setting(
        80, "Further steps on demonstrations whose actions are partly random.", unit="steps", ge=0, le=100_000
    )
    noise: float = setting(0.6, "Share of random actions in those demonstrations.", ge=0, le=1)
    batch: int = setting(
        32, "Demonstrated trajectories per step (twice as many single states).", unit="trajectories", gt=0, le=4096
    )
    learning_rate: float = setting(2e-3, "Peak learning rate of the warm-up (cosine).", gt=0, le=1)
    seed: int = setting(0, "Seed of the weights and of the demonstrations.", ge=0)
