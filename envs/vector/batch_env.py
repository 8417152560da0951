"""Interface of a batch: B environments of one kind, reset from seeds and stepped by turns of several actions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from envs.base import EnvSettings, TextEnv
from envs.support.rng import Stream

Rows = NDArray[np.intp]
Flags = NDArray[np.bool_]
Options = dict[str, Any]
Turns = Sequence[str | int | Sequence[str | int]] | NDArray[Any]
"""For each row an action or a list of them, by name or index."""


@dataclass(frozen=True)
class BatchTurn:
    """Outcome of one turn. B rows; K actions in the longest row; entries of actions that were not executed are zero.

    An action is not executed if its row has ended or its turn is shorter.
    """

    texts: list[str]
    """(B) texts of the states after the turn."""
    rewards: NDArray[np.float64]
    """(B, K)"""
    executed: Flags
    """(B, K) the action was passed to the environment, even if unknown."""
    valid: Flags
    """(B, K) executed, and one of the environment's actions."""
    effective: Flags
    """(B, K) the action changed the state."""
    actual: NDArray[np.object_]
    """(B, K) the executed action where it differs (a slip), else None."""
    terminated: Flags
    """(B,) the row has ended by its rules, in this turn or before."""
    truncated: Flags
    """(B,) the row has ended by the setting `max_steps`, in this turn or before."""
    success: Flags
    """(B,)"""

    @classmethod
    def empty(cls, count: int, actions: int) -> BatchTurn:
        """A turn without executed actions, to be filled."""
        shape = (count, actions)
        executed, valid, effective = (np.zeros(shape, np.bool_) for _ in range(3))
        ends = (np.zeros(count, np.bool_) for _ in range(3))
        return cls([""] * count, np.zeros(shape), executed, valid, effective, np.full(shape, None, np.object_), *ends)


class BatchEnv(ABC):
    """B environments of one kind and settings, each exactly like a single one reset with its seeds.

    Attributes:
        env_class: the environment whose rules the batch implements.
        RULES: methods that a subclass of `env_class` must not override.
        terminated, truncated, success, taken: (B,) state of the rows; `taken` counts valid actions.
        seeds, dynamics_seeds: of the current episodes.
        single: an environment of the kind, for spaces, description and initial states.
    """

    env_class: ClassVar[type[TextEnv]]
    RULES: ClassVar[tuple[str, ...]] = ("step", "render", "_info")

    def __init__(self, kind: type[TextEnv], settings: EnvSettings, count: int) -> None:
        if count < 1:
            raise ValueError(f"a batch has at least one row, not {count}")
        self.count = count
        self.single = kind(settings)
        self.seeds = [0] * count
        self.dynamics_seeds = [0] * count
        self.taken = np.zeros(count, np.intp)
        self.terminated, self.truncated, self.success, self._started = (np.zeros(count, np.bool_) for _ in range(4))

    @classmethod
    def supports(cls, kind: type[TextEnv]) -> bool:
        """Whether this class implements the rules of an environment."""
        return issubclass(kind, cls.env_class) and all(
            getattr(kind, rule) is getattr(cls.env_class, rule) for rule in cls.RULES
        )

    def reset(
        self,
        seeds: Sequence[int],
        dynamics_seeds: Sequence[int] | None = None,
        *,
        options: Sequence[Options] | None = None,
        rows: Sequence[int] | Rows | None = None,
    ) -> list[str]:
        """Reset these rows (default: all), with one seed and one dictionary of options each. Returns their texts.

        The default dynamics seed is that of the row's options, else its seed, as in a single environment.
        Raises ValueError if the number of seeds differs from that of rows.
        """
        chosen = np.arange(self.count) if rows is None else np.asarray(rows, np.intp)
        options = [{}] * len(chosen) if options is None else options
        for name, values in (("seeds", seeds), ("dynamics seeds", dynamics_seeds), ("options", options)):
            if values is not None and len(values) != len(chosen):
                raise ValueError(f"{len(values)} {name} for {len(chosen)} rows: give one for each row")
        if dynamics_seeds is None:
            own = [option.get("dynamics_seed") for option in options]
            dynamics_seeds = [seed if other is None else other for seed, other in zip(seeds, own, strict=True)]
        for row, seed, dynamics in zip(chosen.tolist(), seeds, dynamics_seeds, strict=True):
            self.seeds[row], self.dynamics_seeds[row] = int(seed), int(dynamics)
        for state in (self.terminated, self.truncated, self.success, self.taken, self._started):
            state[chosen] = 0
        self._begin(chosen, options)
        self._started[chosen] = True
        return self.texts() if rows is None else [self.texts()[row] for row in chosen.tolist()]

    def _check(self, actions: Turns) -> None:
        if not self._started.all():
            raise ResetNeeded("call reset() first")
        if len(actions) != self.count:
            raise ValueError(f"{len(actions)} turns for {self.count} rows: give one for each row")

    def _finished(self, turn: BatchTurn) -> BatchTurn:
        """Fill in the state at the end of the turn."""
        turn.texts[:] = self.texts()
        turn.terminated[:], turn.truncated[:], turn.success[:] = self.terminated, self.truncated, self.success
        return turn

    def _starts(self, rows: Rows, options: Sequence[Options]) -> Iterator[tuple[Rows, TextEnv]]:
        """Groups of rows with the same start, and a single environment reset to it."""
        alike: dict[tuple[int, int], list[int]] = {}
        by_row = dict(zip(rows.tolist(), options, strict=True))
        for row, option in by_row.items():
            alike.setdefault((self.seeds[row], id(option)), []).append(row)
        for (seed, _), members in alike.items():
            self.single.reset(seed=seed, options=by_row[members[0]])
            yield np.array(members, np.intp), self.single

    @abstractmethod
    def step(self, actions: Turns) -> BatchTurn:
        """Play one turn: for each row an action or a list of them, by name (case-insensitive) or index.

        A row stops at its end; the rest of its turn, and its later turns, are not executed. An invalid index or name is
        an unknown action. An array of integers has the shape (B,) or (B, K). Raises ValueError if the number of turns
        differs from that of rows, ResetNeeded if a row was never reset.
        """

    @abstractmethod
    def _begin(self, rows: Rows, options: Sequence[Options]) -> None:
        """Initialise these rows by `seeds` and `dynamics_seeds`."""

    @abstractmethod
    def texts(self) -> list[str]:
        """(B) texts of the current states."""


def as_lists(actions: Turns) -> list[Sequence[Any]]:
    """The actions of each row as lists."""
    return [[turn] if isinstance(turn, str | int | np.integer) else turn for turn in actions]


def group_seeds(seeds: Sequence[int], members: int) -> tuple[list[int], list[int]]:
    """Seeds and dynamics seeds of groups: `members` rows per seed, with equal starts and different dynamics."""
    starts = [int(seed) for seed in seeds for _ in range(members)]
    dynamics = [
        int(np.random.SeedSequence([int(seed), int(Stream.DYNAMICS), member]).generate_state(1, np.uint64)[0])
        for seed in seeds
        for member in range(members)
    ]
    return starts, dynamics
