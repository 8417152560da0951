"""Array implementation of FrozenLake."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from envs.base import EnvSettings, TextEnv
from envs.frozen_lake import ACTIONS, FrozenLake, FrozenLakeSettings
from envs.support.rng import Stream
from envs.vector.arrays import ArrayBatch, Outcome, TextGrid, symbols
from envs.vector.batch_env import Options, Rows
from envs.vector.batch_rng import BatchRng

_ICE, _HOLE, _GOAL = 0, 1, 2
_CELLS = symbols("_OG")
_PLAYER = symbols("PX√")
_DOWN = np.array([0, 1, 0, -1])
_RIGHT = np.array([-1, 0, 1, 0])
"""Offsets of each of ACTIONS in rows and columns."""


class FrozenLakeBatch(ArrayBatch):
    """FrozenLake on drawn or given maps."""

    env_class = FrozenLake

    def __init__(self, kind: type[TextEnv], settings: EnvSettings, count: int) -> None:
        super().__init__(kind, settings, count)
        assert isinstance(settings, FrozenLakeSettings)
        self._slippery = settings.slippery
        self._rng = BatchRng(count)
        self._grid = TextGrid(count)
        self._kind = np.zeros((count, 0), np.int8)
        self._row, self._column, self._height, self._width = (np.zeros(count, np.intp) for _ in range(4))

    def _begin(self, rows: Rows, options: Sequence[Options]) -> None:
        for same, env in self._starts(rows, options):
            assert isinstance(env, FrozenLake)
            text = symbols(env.render())
            if more := self._grid.fit(len(text)):
                self._kind = np.pad(self._kind, ((0, 0), (0, more)))
            self._grid.cells[same] = 0
            self._grid.cells[same, : len(text)] = text
            self._kind[same] = _ICE
            self._kind[same, : len(text)] = _HOLE * (text == _CELLS[_HOLE]) + _GOAL * (text == _CELLS[_GOAL])
            self._row[same], self._column[same] = env.player
            self._height[same], self._width[same] = env.lake.height, env.lake.width
        if self._slippery:
            self._rng.seed(rows.tolist(), [self.dynamics_seeds[row] for row in rows.tolist()], Stream.DYNAMICS)

    def _act(self, rows: Rows, codes: Rows) -> Outcome:
        direction = (codes - 1 + self._rng.below(rows, 3)) % len(ACTIONS) if self._slippery else codes
        kind, text = self._kind.ravel(), self._grid.cells.ravel()
        width = self._width[rows]
        first = rows * self._grid.cells.shape[1]
        here = first + self._row[rows] * (width + 1) + self._column[rows]
        row = self._row[rows] = np.clip(self._row[rows] + _DOWN[direction], 0, self._height[rows] - 1)
        column = self._column[rows] = np.clip(self._column[rows] + _RIGHT[direction], 0, width - 1)
        there = first + row * (width + 1) + column
        text[here] = _CELLS[kind[here]]
        text[there] = _PLAYER[kind[there]]
        arrived = kind[there] == _GOAL
        return Outcome(
            rewards=arrived.astype(np.float64),
            effective=here != there,
            terminated=kind[there] != _ICE,
            success=arrived,
            actual=direction,
        )

    def texts(self) -> list[str]:
        return self._grid.strings()
