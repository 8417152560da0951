"""Imitation sections of RunConfig: supervised fine-tuning on demonstrations and the warm-up of the pocket policy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import field_validator

from trainer.config.base import POCKET, Section, setting
from trainer.config.conditions import EVALUATES, NoEffect, is_none_of, is_one_of, is_zero
from trainer.config.environment import MixedEnvironment, check_mix

MAX_HELD_OUT = 100
"""Maximum number of demonstrations held out for validation (paper, appendix C)."""


class SftConfig(Section):
    """Imitation of a solver: all of a run of kind sft, or the warm-up at the beginning of a training run.

    Demonstrations that do not succeed are left out.
    """

    no_effect = (
        NoEffect((EVALUATES,), "only training and supervised fine-tuning use it, not {kind}"),
        NoEffect(
            (is_one_of("kind", ("sft",)),), "all iterations of this run are steps on demonstrations", ("warmup_steps",)
        ),
        NoEffect(
            (is_one_of("kind", ("train",)), is_one_of("policy.model", (POCKET,))),
            "the built-in pocket policy has its own warm-up, and only a run of kind sft shows it demonstrations",
        ),
        NoEffect(
            (is_one_of("kind", ("train",)), is_zero("sft.warmup_steps")),
            "sft.warmup_steps is 0: training begins without demonstrations",
            except_for=("warmup_steps",),
        ),
    )

    warmup_steps: int = setting(
        0,
        "Optimiser steps on demonstrations before the first iteration of a training run; 0 = none. For pretrained "
        "models, which rarely give a valid answer at first: 16 to 60 steps teach the form of an answer, and more of "
        "them leave less for reinforcement to find. The rate rises over the first 5 % of the steps and then falls to a "
        "tenth (cosine). The built-in pocket policy has its own warm-up.",
        unit="steps",
        added=True,
        ge=0,
        le=100_000,
    )
    demonstrations: int = setting(
        1000,
        "Demonstrations to learn from. A further batch of them, and at most 100, is held out for validation.",
        unit="trajectories",
        source="paper, appendix C: 1,000",
        gt=0,
        le=1_000_000,
    )
    mix: list[MixedEnvironment] = setting(
        [],
        "Further environments that only the demonstrations use, with name, share of the demonstrations, and optionally "
        "settings and budgets, as in - {name: Bandit, share: 0.5}; the run's own environments get the remaining share. "
        "For a run in BanditRev, where good play always shows the same arm, half of the demonstrations in Bandit teach "
        "the form of an answer and leave the choice open.",
        added=True,
    )
    batch: int = setting(
        128,
        "Demonstrations per optimiser step.",
        unit="trajectories",
        source="paper, appendix C: 128",
        gt=0,
        le=65_536,
    )
    learning_rate: float = setting(
        1e-4,
        "Learning rate. A warm-up of few steps needs a higher one, such as 5e-4 for all weights, 1e-3 for adapters.",
        source="paper, appendix C: 1e-4",
        gt=0,
        le=1,
    )

    @field_validator("mix")
    @classmethod
    def check_mix(cls, value: list[MixedEnvironment]) -> list[MixedEnvironment]:
        """Require distinct environments, and a remaining share for the run's own environments."""
        check_mix(value, "sft.mix", "the run's own environments")
        return value

    @property
    def held_out(self) -> int:
        """Number of further demonstrations, held out for validation: a batch, up to the paper's number."""
        return min(self.batch, MAX_HELD_OUT)

    @property
    def mean_batch(self) -> float:
        """Mean number of demonstrations per step: the last batch of an epoch may be smaller."""
        return mean_batch(self.demonstrations, self.batch)


def mean_batch(demonstrations: int, batch: int) -> float:
    """Compute the mean number of demonstrations per step from an epoch's demonstrations and the maximum batch."""
    return demonstrations / -(-demonstrations // batch)


Course = Literal["general", "frozen_lake", "bandit", "countdown", "webshop", "calculator"]

COURSE_ENVIRONMENTS: dict[Course, tuple[str, ...]] = {
    "general": ("Sokoban", "LargeSokoban", "SokobanNewVocab", "FrozenLake", "Bandit", "BanditRev", "BanditTest"),
    "frozen_lake": ("FrozenLake",),
    "bandit": ("Bandit", "BanditRev", "BanditTest"),
    "countdown": ("Countdown",),
    "webshop": ("WebShop",),
    "calculator": ("ToolCalculator",),
}
"""Environments with a vocabulary that a course teaches."""


class WarmupConfig(Section):
    """The pocket policy's supervised fine-tuning on a solver's demonstrations, before any RL.

    With thoughts, a course's policy is the one that ships with the project; without, it is built once and cached.
    """

    no_effect = (NoEffect((is_none_of("policy.model", (POCKET,)),), "only the pocket policy is warmed up"),)

    course: Course = setting(
        "general",
        "What the policy is warmed up on: general (Sokoban, FrozenLake and Bandit) or a single environment.",
        added=True,
    )
    think: bool = setting(
        True,
        "Demonstrations with thoughts. Without, the policy learns to answer at once, for runs with rollout.think off.",
        added=True,
    )

    def unknown_among(self, environments: Iterable[str]) -> list[str]:
        """Filter the environments with a vocabulary that the course does not teach."""
        return [name for name in environments if name not in COURSE_ENVIRONMENTS[self.course]]
