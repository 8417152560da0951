"""Base of the array implementations: actions as codes, a turn as a few whole-batch steps, texts as character arrays.

A subclass adds initial states and the effect of one action.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from envs.base import EnvSettings, TextEnv
from envs.vector.batch_env import BatchEnv, BatchTurn, Flags, Rows, Turns, as_lists

UNKNOWN = -1
"""Code of an unknown action."""
ABSENT = -2
"""Code of no action, where a row's turn is shorter than the longest one."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of one action in some rows; every array has one entry per row."""

    rewards: NDArray[np.float64]
    effective: Flags
    terminated: Flags
    success: Flags
    actual: NDArray[np.intp] | None = None
    """Code of the executed action."""


class ArrayBatch(BatchEnv):
    """A batch in arrays, stepped without loops over rows or cells."""

    def __init__(self, kind: type[TextEnv], settings: EnvSettings, count: int) -> None:
        super().__init__(kind, settings, count)
        self.names: tuple[str, ...] = self.single.env_spec.actions
        self._limit: int | None = getattr(settings, "max_steps", None)
        self._codes: dict[object, int] = {}
        for code, name in enumerate(self.names):
            self._codes |= {name: code, name.lower(): code, code: code}
        self._meaning = np.array(self.names, np.object_)

    def step(self, actions: Turns) -> BatchTurn:
        self._check(actions)
        codes = self._encode(actions)
        turn = BatchTurn.empty(*codes.shape)
        for number in range(codes.shape[1]):
            now = codes[:, number]
            live = (now != ABSENT) & ~(self.terminated | self.truncated)
            valid = live & (now != UNKNOWN)
            turn.executed[:, number], turn.valid[:, number] = live, valid
            rows = np.flatnonzero(valid)
            if len(rows):
                self._write(turn, number, rows, now[rows])
        return self._finished(turn)

    def _write(self, turn: BatchTurn, number: int, rows: Rows, codes: Rows) -> None:
        """Execute the actions and record their outcome."""
        outcome = self._act(rows, codes)
        self.taken[rows] += 1
        turn.rewards[rows, number] = outcome.rewards
        turn.effective[rows, number] = outcome.effective
        if outcome.actual is not None:
            slipped = outcome.actual != codes
            turn.actual[rows[slipped], number] = self._meaning[outcome.actual[slipped]]
        self.success[rows] = outcome.success
        self.terminated[rows] = outcome.terminated
        if self._limit is not None:
            self.truncated[rows] = ~outcome.terminated & (self.taken[rows] == self._limit)

    def _encode(self, actions: Turns) -> Rows:
        """(B, K) codes of the actions."""
        if isinstance(actions, np.ndarray) and np.issubdtype(actions.dtype, np.integer):
            codes = actions.reshape(self.count, -1).astype(np.intp)
            return np.where((codes >= 0) & (codes < len(self.names)), codes, UNKNOWN)
        turns = as_lists(actions)
        flat = [self._code(action) for turn in turns for action in turn]
        lengths = np.fromiter(map(len, turns), np.intp, self.count)
        codes = np.full((self.count, int(np.max(lengths))), ABSENT, np.intp)
        codes[np.arange(codes.shape[1]) < lengths[:, None]] = flat
        return codes

    def _code(self, action: str | int) -> int:
        code = self._codes.get(action)
        if code is None and isinstance(action, str):
            code = self._codes.get(action.strip().lower())
        return UNKNOWN if code is None else code

    @abstractmethod
    def _act(self, rows: Rows, codes: Rows) -> Outcome:
        """Execute one known action in each of these rows, which are distinct and have not ended."""


class TextGrid:
    """(B, L) characters of B texts as numbers, so that whole batches are written at once.

    Texts shorter than L end in zeros, which NumPy drops when it makes strings.
    """

    def __init__(self, count: int) -> None:
        self.cells = np.zeros((count, 0), np.uint32)

    def fit(self, length: int) -> int:
        """Make room for texts of this length. Returns by how many characters the rows grew."""
        more = max(0, length - self.cells.shape[1])
        if more:
            self.cells = np.pad(self.cells, ((0, 0), (0, more)))
        return more

    def strings(self) -> list[str]:
        """The texts."""
        texts: list[str] = self.cells.view(f"U{self.cells.shape[1]}")[:, 0].tolist()
        return texts


def symbols(text: str) -> NDArray[np.uint32]:
    """The characters of a text as numbers."""
    return np.fromiter(map(ord, text), np.uint32, len(text))
