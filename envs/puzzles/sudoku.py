"""Sudoku environment: fill the empty cells so that every row, column and box has each digit once.

Every puzzle has one solution. An action writes one digit, as in "r1c2=3" for row 1, column 2. With n blanks at the
start, its reward is the change of the number of right digits divided by n, and 1/n less if the digit is wrong or the
grid did not change. Reasons: filling the grid without an error pays 1 for any size; each digit pays immediately, so
that partial solutions differ; a guess between two digits gains nothing on average; and replacing a right digit costs
its reward, so that no cycle of actions gains anything.
"""

from __future__ import annotations

import re
from math import ceil
from typing import Any, ClassVar, Self

from gymnasium.error import ResetNeeded
from pydantic import Field, model_validator

from envs.base import EnvSettings, EnvSpec, GridBoard, Hint, StepInfo, Symbol, TextEnv
from envs.puzzles.sudoku_grids import (
    MAX_BLANKS,
    SHAPES,
    TYPICAL_BLANKS,
    Deduction,
    Grid,
    Shape,
    make_puzzle,
    next_deduction,
    parse_grid,
)
from envs.spaces import AnyText, text_space
from envs.support.reset_options import read_options
from envs.support.rng import SeededRng, Stream

ACTIONS_PER_TURN = 5
SPARE_ACTIONS = 1.5
"""Budget of actions per blank: a third of them may be errors or corrections."""
_ACTION = re.compile(r"\s*r\s*([1-9])\s*c\s*([1-9])\s*=\s*([1-9])\s*", re.IGNORECASE)
_RIGHT, _WRONG = "abcdefghi", "ABCDEFGHI"
_SHADED = "stuvwxyz&"
"""Characters of the board for given digits in every other box; elsewhere they are the digits themselves."""


class SudokuSettings(EnvSettings):
    """Settings of the puzzles."""

    size: int = Field(4, ge=4, le=9, description="Cells along each side: 4, 6 or 9; boxes are 2×2, 2×3 or 3×3.")
    blanks: int | None = Field(
        None, ge=1, description="Empty cells at the start; empty = 6, 14 or 36 by size. At most 10, 22 or 54."
    )

    @model_validator(mode="after")
    def possible(self) -> Self:
        if self.size not in SHAPES:
            raise ValueError(f"there are no boxes for size {self.size}: choose size 4, 6 or 9")
        if (self.blanks or 0) > MAX_BLANKS[self.size]:
            raise ValueError(
                f"puzzles of size {self.size} with {self.blanks} blanks rarely have one solution: choose at most "
                f"{MAX_BLANKS[self.size]} blanks, or a larger size"
            )
        return self

    @property
    def shape(self) -> Shape:
        """Return the side of the grid and of its boxes."""
        return SHAPES[self.size]

    @property
    def empty_cells(self) -> int:
        """Return the number of empty cells of a generated puzzle."""
        return self.blanks or TYPICAL_BLANKS[self.size]


class Sudoku(TextEnv):
    """Write digits into a grid. `reset(options={"grid": text})` poses a given puzzle, `.` for empty cells."""

    Settings: ClassVar[type[EnvSettings]] = SudokuSettings
    settings: SudokuSettings
    trusted = True

    def __init__(self, settings: EnvSettings | None = None, **overrides: Any) -> None:
        super().__init__(settings, **overrides)
        self.shape = self.settings.shape
        actions = ceil(SPARE_ACTIONS * self.settings.empty_cells)
        self.env_spec = EnvSpec(
            name="Sudoku",
            title="Sudoku",
            summary="Fill a grid so that every row, column and box has each digit once.",
            instruction=(
                f"Fill each . so that rows, columns and boxes have 1 to {self.shape.size} once. r1c2=3 writes 3 into "
                "row 1, column 2."
            ),
            vocabulary={},
            actions=(),
            max_turns=max(5, ceil(actions / ACTIONS_PER_TURN)),
            max_actions_per_turn=ACTIONS_PER_TURN,
            max_actions=actions,
            success="Every cell has the digit of the solution.",
        )
        self.action_space = AnyText()
        self.observation_space = text_space("0123456789. |-+", max_length=300)
        self._solution: Grid | None = None

    @classmethod
    def describe(cls, settings: EnvSettings) -> EnvSpec:
        """Describe the puzzle with these settings, since budgets grow with the number of blanks."""
        return cls(settings).env_spec

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        options = read_options(options, {"grid": "a text"})
        if "grid" in options:
            self._given, self._solution = parse_grid(self.shape, options["grid"])
        else:
            rng = SeededRng(int(self.np_random.integers(2**62)) if seed is None else seed, Stream.START)
            self._given, self._solution = make_puzzle(rng, self.shape, self.settings.empty_cells)
        self._grid = self._given
        self._unit = 1 / self._given.count(0)
        return self.render(), self._info(effective=False, valid=True)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        solution = self.solution
        if self._grid == solution:
            raise ResetNeeded("the episode is over: call reset() before the next step()")
        move = self._read(action)
        if move is None:
            return self.render(), 0.0, False, False, self._info(effective=False, valid=False)
        cell, digit = move
        previous = self._grid
        if not self._given[cell]:
            self._grid = (*previous[:cell], digit, *previous[cell + 1 :])
        rise = (self._grid[cell] == solution[cell]) - (previous[cell] == solution[cell])
        wasted = self._grid == previous or digit != solution[cell]
        info = self._info(effective=self._grid != previous, valid=True)
        return self.render(), (rise - wasted) * self._unit, self._grid == solution, False, info

    def render(self) -> str:
        """Return the grid, one line per row, with lines between the boxes."""
        if self._solution is None:
            raise ResetNeeded("call reset() first")
        shape = self.shape
        bars = "+".join(["-" * (2 * shape.box_width + 1)] * (shape.size // shape.box_width))[1:-1]
        lines = []
        for row in range(shape.size):
            if row and row % shape.box_height == 0:
                lines.append(bars)
            digits = [str(digit or ".") for digit in self._grid[row * shape.size : (row + 1) * shape.size]]
            boxes = [digits[first : first + shape.box_width] for first in range(0, shape.size, shape.box_width)]
            lines.append(" | ".join(map(" ".join, boxes)))
        return "\n".join(lines)

    def board(self) -> GridBoard:
        """Return the grid: given digits on the ground of their box, the agent's digits as right or wrong."""
        size, shape = self.shape.size, self.shape
        legend: dict[str, Symbol] = {}
        cells = []
        for cell, digit in enumerate(self._grid):
            row, column, _ = shape.units[cell]
            shaded = (row // shape.box_height + column // shape.box_width) % 2 == 1
            sign, symbol = self._sign(cell, digit, shaded=shaded)
            legend[sign] = symbol
            cells.append(sign)
        rows = ["".join(cells[first : first + size]) for first in range(0, shape.cells, size)]
        return GridBoard(theme="sudoku", rows=rows, legend=dict(sorted(legend.items())))

    def hint(self) -> Hint:
        """Return all digits that bring the grid closer to the solution, the next deduction first."""
        cells = [cell for cell, digit in enumerate(self.solution) if self._grid[cell] != digit]
        first = self.deduction()
        if first is not None:
            cells.remove(first.cell)
            cells.insert(0, first.cell)
        return Hint(actions=[self.action_for(cell, self.solution[cell]) for cell in cells], distance=len(cells))

    def deduction(self) -> Deduction | None:
        """Return the digit to write next, with the reason; None when solved. Wrong digits count as empty."""
        solution = self.solution
        right = tuple(digit if digit == solution[cell] else 0 for cell, digit in enumerate(self._grid))
        return next_deduction(self.shape, right, solution)

    def action_for(self, cell: int, digit: int) -> str:
        """Return the action that writes a digit into a cell, both counted as in grids."""
        row, column = divmod(cell, self.shape.size)
        return f"r{row + 1}c{column + 1}={digit}"

    @property
    def solution(self) -> Grid:
        """Return the solution of this episode's puzzle."""
        if self._solution is None:
            raise ResetNeeded("call reset() first")
        return self._solution

    @property
    def given(self) -> Grid:
        """Return the puzzle at the start."""
        return self._given

    @property
    def grid(self) -> Grid:
        """Return the grid with the digits written so far."""
        return self._grid

    def _read(self, action: str) -> tuple[int, int] | None:
        """Return cell and digit of an action; None if it names none of this size."""
        match = _ACTION.fullmatch(action)
        numbers = [int(number) for number in match.groups()] if match else []
        if not numbers or max(numbers) > self.shape.size:
            return None
        row, column, digit = numbers
        return (row - 1) * self.shape.size + column - 1, digit

    def _sign(self, cell: int, digit: int, *, shaded: bool) -> tuple[str, Symbol]:
        """Return a cell's character on the board, and its meaning."""
        if not digit:
            return (":", Symbol(name="empty", tone="tile")) if shaded else (".", Symbol(name="empty"))
        if self._given[cell]:
            sign = _SHADED[digit - 1] if shaded else str(digit)
            return sign, Symbol(name=str(digit), tone="tile" if shaded else "floor", glyph=str(digit))
        if digit == self.solution[cell]:
            return _RIGHT[digit - 1], Symbol(name=f"{digit}, right", tone="good", glyph=str(digit))
        return _WRONG[digit - 1], Symbol(name=f"{digit}, wrong", tone="danger", glyph=str(digit))

    def _info(self, *, effective: bool, valid: bool) -> dict[str, Any]:
        return StepInfo(success=self._grid == self.solution, effective=effective, valid=valid).model_dump()
