"""Definition of a study: arms, findings of the paper, and the grid of environments × arms × seeds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

Scale = Literal["smoke", "pocket", "paper"]
SCALES: tuple[Scale, ...] = get_args(Scale)
Changes = Mapping[str, Any]
"""Dotted settings with their values."""

REWARD, SUCCESS, SPREAD = "reward/mean", "success/rate", "reward/in_group_std"
ENTROPY, GRADIENT, THOUGHT = "entropy/mean", "policy/grad_norm", "length/think"
FIRST_THOUGHTS, TRUE_CLAIMS = "diversity/thoughts_in_group", "claims/true_share"
TRAP = (SUCCESS, SPREAD, ENTROPY, GRADIENT)
"""Metrics in which the paper shows a collapse."""


@dataclass(frozen=True)
class Arm:
    """A variant that a study compares: changes to a preset. `paper` are further changes only at that scale.

    A change "× 10" or "÷ 10" is relative to the preset's value; whole numbers stay whole and at least 1.
    """

    name: str
    title: str
    preset: Literal["starpo", "starpo_s"]
    changes: Changes = field(default_factory=dict)
    paper: Changes = field(default_factory=dict)
    stretch: int = 1
    """Iterations of other arms that correspond to one of this arm; its curves are drawn that much wider."""


Claim = Literal[
    "higher",
    "higher_in_strata",
    "metric_higher",
    "collapses_later",
    "less_update_time",
    "less_memory",
    "not_lower",
    "falls",
]
Stratum = tuple[tuple[str, ...], tuple[str, ...]]
"""Arms, and the arms that they are compared with: equal but for what a contrast is about."""


@dataclass(frozen=True)
class Finding:
    """A statement of the paper that a study can test: `arm` against `other` in each environment.

    `metric` is compared by claims that need one. `margin`, a share of puzzles, is the tolerance of "not lower".
    `environments` are the statement's environments (default: all of the study). `gain` compares how far success rose
    above that before training, for arms that start from different policies. A claim "in strata" is a single contrast of
    several arms, `strata`, instead of many pairs.
    """

    text: str
    claim: Claim
    arm: str = ""
    other: str = ""
    suite: str = ""
    metric: str = SUCCESS
    margin: float = 0.05
    environments: tuple[str, ...] = ()
    strata: tuple[Stratum, ...] = ()
    gain: bool = False

    @property
    def sides(self) -> Stratum:
        """All arms of the statement, and all arms that they are compared with."""
        if not self.strata:
            return (self.arm,), (self.other,) if self.other else ()
        arms, others = zip(*self.strata, strict=True)
        return tuple(itertools.chain(*arms)), tuple(itertools.chain(*others))


@dataclass(frozen=True)
class Study:
    """A grid: environments × arms × seeds.

    `pocket` are changes to all cells at that scale; `suites` are further environments for the evaluation of every cell,
    `environment_suites` only for one environment's cells.
    """

    name: str
    title: str
    question: str
    environments: tuple[str, ...]
    arms: tuple[Arm, ...]
    findings: tuple[Finding, ...]
    curves: tuple[str, ...] = (SUCCESS,)
    suites: tuple[str, ...] = ()
    environment_suites: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pocket: Changes = field(default_factory=dict)
    seeds: Mapping[Scale, int] = field(default_factory=lambda: {"smoke": 1, "pocket": 10, "paper": 3})

    def places(self, seeds: int) -> Iterator[tuple[str, Arm, int]]:
        """Yield (environment, arm, seed) of each run; runs to compare are adjacent, to run at the same time."""
        for seed in range(seeds):
            for environment in self.environments:
                yield from ((environment, arm, seed) for arm in self.arms)

    def get_suites(self, environment: str) -> tuple[str, ...]:
        """Return the suites that evaluate an environment's cells, in addition to that environment."""
        return (*self.suites, *self.environment_suites.get(environment, ()))

    @property
    def all_suites(self) -> tuple[str, ...]:
        """Suites of any environment."""
        return tuple(
            dict.fromkeys(suite for environment in self.environments for suite in self.get_suites(environment))
        )
