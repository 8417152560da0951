"""2048 environment: slide all tiles to a side, so that equal neighbours merge, until one has the target value.

After a move that changes the board, a new tile appears in a random empty cell: 2 or, with probability `fours`, 4. A
move that changes nothing adds no tile and pays nothing.

Reward: a merge into the tile 2^k pays k / S, where S = 3·2^(K−1) − K − 2 is the sum of k over all merges that make the
target 2^K out of twos; the target pays 1 more. Reasons: the game's own score doubles with every tile, so that rare
late merges would decide what a policy learns; logarithms keep the early ones visible. With S, the way to any target
pays about 1, and reaching it as much again.
"""

from __future__ import annotations

from math import ceil
from typing import Any, ClassVar, Self

from gymnasium.error import ResetNeeded
from pydantic import Field, model_validator

from envs.base import EnvSettings, EnvSpec, GridBoard, Hint, StepInfo, Symbol, TextEnv, Tone
from envs.puzzles.sliding_tiles import ACTIONS, Tiles, advice, empty_cells, moves, slide, with_tile
from envs.spaces import ActionNames, text_space
from envs.support.reset_options import read_options
from envs.support.rng import SeededRng, Stream, dynamics_rng

MAX_SIZE = 6
MAX_TARGET = 2048
ACTIONS_PER_TURN = 5
MAX_TURNS, MAX_ACTIONS = 100, 1000
TARGET_REWARD = 1.0
FIRST_TILES = 2
_SIGNS = ".123456789abc"
"""Characters of the board by exponent."""
_TONES: tuple[Tone, ...] = ("tile", "white", "yellow", "orange", "red", "blue", "green")
"""Tones of 2, 4, 8, …; the last tone is used for all larger tiles."""


class BoardError(ValueError):
    """Text that is not a board of tiles. The message says why."""


class Game2048Settings(EnvSettings):
    """Settings of the game."""

    size: int = Field(4, ge=3, le=MAX_SIZE, description="Cells along each side of the board.")
    target: int = Field(64, ge=8, le=MAX_TARGET, description="Tile that wins, a power of two: 8, 16, … 2048.")
    fours: float = Field(0.1, ge=0, le=1, description="Probability that a new tile is a 4 rather than a 2.")

    @model_validator(mode="after")
    def possible(self) -> Self:
        if self.target & (self.target - 1):
            below = 1 << (self.target.bit_length() - 1)
            raise ValueError(f"target {self.target} is no power of two: choose {below} or {2 * below}")
        if self.target > 2**self.size**2:
            raise ValueError(
                f"a board of size {self.size} has no room for the target {self.target}: choose at most "
                f"{2**self.size**2}, or a larger board"
            )
        return self

    @property
    def exponent(self) -> int:
        """Return the target as an exponent of two."""
        return self.target.bit_length() - 1


def merge_unit(exponent: int) -> int:
    """Return the sum of the exponents of all merges that make the tile with this exponent out of twos."""
    return 3 * (1 << (exponent - 1)) - exponent - 2


class Game2048(TextEnv):
    """Slide and merge tiles. `reset(options={"board": text})` starts with given tiles, `.` for empty cells."""

    Settings: ClassVar[type[EnvSettings]] = Game2048Settings
    settings: Game2048Settings
    trusted = True

    def __init__(self, settings: EnvSettings | None = None, **overrides: Any) -> None:
        super().__init__(settings, **overrides)
        actions = min(MAX_ACTIONS, ceil(self.settings.target * 3 / 4))
        turns = min(MAX_TURNS, ceil(actions / ACTIONS_PER_TURN))
        per_turn = ceil(actions / turns)
        self.env_spec = EnvSpec(
            name="Game2048",
            title="2048",
            summary="Slide numbered tiles on a small board: equal ones merge, until one reaches the target.",
            instruction=(
                "All tiles slide to one side; equal neighbours merge. Make the tile "
                f"{self.settings.target}. A dot is an empty cell."
            ),
            vocabulary={},
            actions=ACTIONS,
            max_turns=turns,
            max_actions_per_turn=per_turn,
            max_actions=turns * per_turn,
            success=f"A tile has the target value, {self.settings.target}.",
        )
        self.action_space: ActionNames = ActionNames(ACTIONS)
        self.observation_space = text_space("0123456789. ", max_length=MAX_SIZE * (MAX_SIZE * 5 + 1))
        self._tiles: Tiles | None = None

    @classmethod
    def describe(cls, settings: EnvSettings) -> EnvSpec:
        """Describe the game with these settings, since task and budgets depend on the target."""
        return cls(settings).env_spec

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        options = read_options(options, {"board": "a text"})
        if seed is None:
            seed = int(self.np_random.integers(2**62))
        if "board" in options:
            self._tiles = parse_board(options["board"], self.settings.size)
        else:
            start = SeededRng(seed, Stream.START)
            tiles: Tiles = ((0,) * self.settings.size,) * self.settings.size
            for _ in range(FIRST_TILES):
                tiles = self._with_new_tile(tiles, start)
            self._tiles = tiles
        self._dynamics = dynamics_rng(seed, options)
        self._over = self._won() or not moves(self._tiles)
        return self.render(), self._info(effective=False, valid=True)

    def reseed(self, seed: int) -> None:
        self._dynamics = SeededRng(seed, Stream.DYNAMICS)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        tiles = self.tiles
        if self._over:
            raise ResetNeeded("the episode is over: call reset() before the next step()")
        name = self.action_space.action_name(action)
        if name is None:
            return self.render(), 0.0, False, False, self._info(effective=False, valid=False)
        after, merged = slide(tiles, name)
        if after == tiles:
            return self.render(), 0.0, False, False, self._info(effective=False, valid=True)
        self._tiles = self._with_new_tile(after, self._dynamics)
        won = self._won()
        reward = sum(merged) / merge_unit(self.settings.exponent) + TARGET_REWARD * won
        self._over = won or not moves(self._tiles)
        return self.render(), reward, self._over, False, self._info(effective=True, valid=True)

    def render(self) -> str:
        """Return the values of the tiles in columns, one line per row."""
        values = [[str(2**tile) if tile else "." for tile in row] for row in self.tiles]
        width = max(len(value) for row in values for value in row)
        return "\n".join(" ".join(value.rjust(width) for value in row) for row in values)

    def board(self) -> GridBoard:
        """Return the tiles, coloured by their values."""
        present = sorted({tile for row in self.tiles for tile in row})
        legend = {_SIGNS[tile]: _symbol(tile) for tile in present}
        rows = ["".join(_SIGNS[tile] for tile in row) for row in self.tiles]
        return GridBoard(theme="2048", rows=rows, legend=legend)

    def hint(self) -> Hint:
        """Return the best moves by a search of two moves; a heuristic, without a distance."""
        if self._won():
            return Hint(distance=0)
        best = advice(self.tiles, self.settings.exponent)
        return Hint(actions=best) if best else Hint(solvable="no", reason="no move changes the board")

    def plan(self, limit: int) -> list[str]:
        """Return up to `limit` moves to make before new tiles are seen: each the best move if no tile appeared."""
        tiles, exponent, actions = self.tiles, self.settings.exponent, list[str]()
        while len(actions) < limit and not _reached(tiles, exponent) and (best := advice(tiles, exponent)):
            actions.append(best[0])
            tiles, _ = slide(tiles, best[0])
        return actions

    @property
    def tiles(self) -> Tiles:
        """Return the board as exponents."""
        if self._tiles is None:
            raise ResetNeeded("call reset() first")
        return self._tiles

    def _with_new_tile(self, tiles: Tiles, rng: SeededRng) -> Tiles:
        """Return the board with a 2 or 4 in a random empty cell."""
        cell = rng.choice(empty_cells(tiles))
        return with_tile(tiles, cell, 2 if rng.uniform() < self.settings.fours else 1)

    def _won(self) -> bool:
        return _reached(self.tiles, self.settings.exponent)

    def _info(self, *, effective: bool, valid: bool) -> dict[str, Any]:
        return StepInfo(success=self._won(), effective=effective, valid=valid).model_dump()


def parse_board(text: str, size: int) -> Tiles:
    """Return the tiles in a board's text: values separated by spaces, `.` or 0 for empty cells.

    Raises:
        BoardError: rows or cells are missing, or a value is no tile.
    """
    rows = [line.split() for line in text.strip().splitlines()]
    if [len(row) for row in rows] != [size] * size:
        raise BoardError(f"a board of size {size} has {size} lines of {size} values, separated by spaces")
    tiles = tuple(tuple(_exponent(value) for value in row) for row in rows)
    if not any(map(any, tiles)):
        raise BoardError("the board has no tile: give at least one")
    return tiles


def _exponent(value: str) -> int:
    if value in (".", "0"):
        return 0
    number = int(value) if value.isdecimal() and len(value) < 6 else 0
    if number < 2 or number & (number - 1) or number > 2 * MAX_TARGET:
        raise BoardError(f"{value!r} is no tile: use powers of two from 2 to {2 * MAX_TARGET}, and . for empty cells")
    return number.bit_length() - 1


def _reached(tiles: Tiles, exponent: int) -> bool:
    return max(map(max, tiles)) >= exponent


def _symbol(tile: int) -> Symbol:
    if not tile:
        return Symbol(name="empty")
    value = str(2**tile)
    return Symbol(name=value, tone=_TONES[min(tile, len(_TONES)) - 1], glyph=value)
