"""Array implementation of Sokoban.

Cells are numbered as characters of the text, so a room of any shape fits into one row of the arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from envs.base import EnvSettings, TextEnv
from envs.sokoban import levels
from envs.sokoban.sokoban_env import REWARDS, Sokoban, SokobanSettings, canvas
from envs.vector.arrays import ArrayBatch, Outcome, TextGrid, symbols
from envs.vector.batch_env import Options, Rows

_REWARDS = np.array(REWARDS)
_NOTHING, _BOX, _PLAYER = 0, 1, 2
_AT = np.array([[1, 4, 5], [2, 3, 6]])
"""Index in a vocabulary by [is a target][object on the cell]."""


class SokobanBatch(ArrayBatch):
    """Sokoban and its variants with other rooms and symbols."""

    env_class = Sokoban

    def __init__(self, kind: type[TextEnv], settings: EnvSettings, count: int) -> None:
        super().__init__(kind, settings, count)
        assert isinstance(settings, SokobanSettings)
        self._vocabulary = settings.vocabulary
        self._symbols = symbols(levels.SYMBOLS[settings.vocabulary])[_AT]
        self._grid = TextGrid(count)
        self._floor, self._target, self._box = (np.zeros((count, 0), np.bool_) for _ in range(3))
        self._steps = np.zeros((count, len(self.names)), np.intp)
        self._player, self._boxes, self._on_target, self._compared = (np.zeros(count, np.intp) for _ in range(4))

    def _begin(self, rows: Rows, options: Sequence[Options]) -> None:
        for same, env in self._starts(rows, options):
            assert isinstance(env, Sokoban)
            level = env.level
            text = symbols("".join(canvas(level, self._vocabulary)))
            self._fit(len(text))
            self._grid.cells[same] = 0
            self._grid.cells[same, : len(text)] = text
            for cells, numbers in ((self._floor, level.floor), (self._target, level.targets), (self._box, level.boxes)):
                cells[same] = False
                cells[same[:, None], _characters(level, numbers)] = True
            self._player[same] = player = _characters(level, [level.player])[0]
            self._boxes[same], self._on_target[same] = len(level.boxes), len(level.boxes & level.targets)
            self._compared[same] = env.boxes_on_target
            self._steps[same] = (-level.width - 1, level.width + 1, -1, 1)
            width = self._grid.cells.shape[1]
            self._draw(same * width + player, _PLAYER)
            self._draw((same[:, None] * width + _characters(level, level.boxes)).ravel(), _BOX)
        self.success[rows] = self._on_target[rows] == self._boxes[rows]

    def _fit(self, length: int) -> None:
        if more := self._grid.fit(length):
            self._floor, self._target, self._box = (
                np.pad(cells, ((0, 0), (0, more))) for cells in (self._floor, self._target, self._box)
            )

    def _draw(self, places: Rows, what: int) -> None:
        """Write an object's symbol at these indices of the flattened arrays."""
        self._grid.cells.ravel()[places] = self._symbols[self._target.ravel()[places].view(np.int8), what]

    def _act(self, rows: Rows, codes: Rows) -> Outcome:
        floor, target, box = self._floor.ravel(), self._target.ravel(), self._box.ravel()
        here = rows * self._grid.cells.shape[1] + self._player[rows]
        step = self._steps[rows, codes]
        ahead = here + step
        moves = floor[ahead]
        pushers = np.flatnonzero(box[ahead])
        if len(pushers):
            start, end = ahead[pushers], ahead[pushers] + step[pushers]
            free = moves[pushers] = floor[end] & ~box[end]
            start, end, pushers = start[free], end[free], pushers[free]
            box[start], box[end] = False, True
            self._on_target[rows[pushers]] += target[end].astype(np.intp) - target[start]
            self._draw(end, _BOX)
        self._player[rows] += np.where(moves, step, 0)
        self._draw(here[moves], _NOTHING)
        self._draw(ahead[moves], _PLAYER)
        on_target = self._on_target[rows]
        rise = np.sign(on_target - self._compared[rows])
        self._compared[rows] = on_target
        solved = on_target == self._boxes[rows]
        return Outcome(_REWARDS[solved.view(np.int8), rise], effective=moves, terminated=solved, success=solved)

    def texts(self) -> list[str]:
        return self._grid.strings()


def _characters(level: levels.Level, cells: Iterable[int]) -> Rows:
    """Indices of the level's cells among the characters of its text."""
    numbers = np.fromiter(cells, np.intp)
    return numbers + numbers // level.width
