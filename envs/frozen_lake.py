"""FrozenLake environment: a random lake with holes and slippery ice, with advice by value iteration.

Dynamics as in Gymnasium's FrozenLake: on slippery ice the intended direction and both perpendicular directions have
probability 1/3 each. Reward is 1 at the goal, else 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray
from pydantic import Field

from envs.base import ArmsBoard, Claim, EnvSettings, EnvSpec, GridBoard, Hint, PageBoard, TextBoard, TextEnv
from envs.claims.grid_claims import read_grid_claims
from envs.spaces import ActionNames, text_space
from envs.support.reset_options import read_options
from envs.support.rng import SeededRng, Stream, dynamics_rng

ACTIONS = ("Left", "Down", "Right", "Up")
"""In circular order: a slip goes to a neighbouring direction in this order."""

VOCABULARY = {
    "P": "player",
    "_": "frozen",
    "O": "hole",
    "G": "goal",
    "X": "player in a hole",
    "√": "player on the goal",
}
_LETTERS = str.maketrans("SFHG", "P_OG")
_BOARD = str.maketrans("P_OGX√", "@ OGX+")
_FROM_BOARD = str.maketrans("@ ", "P_")
_EQUAL = 1e-9
MAX_SIDE = 20


class MapError(ValueError):
    """Text that is not a valid map. The message says why."""


class FrozenLakeSettings(EnvSettings):
    """Settings of the lakes."""

    size: int = Field(4, ge=2, le=MAX_SIDE, description="Cells along each side of the lake.")
    slippery: bool = Field(True, description="Two steps of three go to the side of the intended direction.")
    frozen: float = Field(0.8, gt=0, le=1, description="Probability that a cell is ice rather than a hole.")
    horizon: int = Field(
        10, ge=1, le=200, description="Actions within which the solver counts success; the budget of a trajectory."
    )
    max_steps: int | None = Field(
        None, ge=1, description="Actions after which the environment itself ends the episode; empty = never."
    )


@dataclass(frozen=True)
class Lake:
    """A map and the cell where play starts. Cells are numbered row by row, with `width` cells in a row."""

    width: int
    height: int
    holes: frozenset[int]
    goal: int
    start: int

    def neighbour(self, cell: int, direction: int) -> int:
        """Return the cell one step away; the same cell at the shore."""
        row, column = divmod(cell, self.width)
        if direction == 0:
            column = max(column - 1, 0)
        elif direction == 1:
            row = min(row + 1, self.height - 1)
        elif direction == 2:
            column = min(column + 1, self.width - 1)
        else:
            row = max(row - 1, 0)
        return row * self.width + column

    def outcomes(self, cell: int, action: int, *, slippery: bool) -> list[int]:
        """Return the possible next cells of an action, equally likely; holes and the goal are absorbing."""
        if cell in self.holes or cell == self.goal:
            return [cell]
        directions = ((action - 1) % 4, action, (action + 1) % 4) if slippery else (action,)
        return [self.neighbour(cell, direction) for direction in directions]

    @cached_property
    def _canvas(self) -> list[str]:
        """Return the characters of the text without the player; cell c has index c + c // width."""
        signs = ["G" if cell == self.goal else "O" if cell in self.holes else "_" for cell in range(self.cells)]
        return list("\n".join("".join(signs[first : first + self.width]) for first in range(0, self.cells, self.width)))

    @property
    def cells(self) -> int:
        """Return the number of cells."""
        return self.width * self.height

    def draw(self, player: int) -> str:
        """Return the lake in the symbols of the vocabulary, one line per row."""
        text = self._canvas.copy()
        text[player + player // self.width] = "X" if player in self.holes else "√" if player == self.goal else "P"
        return "".join(text)

    def steps_to_goal(self) -> dict[int, int]:
        """Return the fewest steps to the goal without slips, for every connected cell."""
        steps = {self.goal: 0}
        layer = [self.goal]
        while layer:
            next_layer = []
            for cell in layer:
                for direction in range(4):
                    previous = self.neighbour(cell, direction)
                    if previous not in steps and previous not in self.holes:
                        steps[previous] = steps[cell] + 1
                        next_layer.append(previous)
            layer = next_layer
        return steps


def parse(text: str) -> Lake:
    """Parse a map in the vocabulary's symbols (P _ O G) or Gymnasium's letters (S F H G). Raises MapError."""
    rows = [row.strip().translate(_LETTERS) for row in text.strip().splitlines()]
    cells = "".join(rows)
    if max(len(rows), len(rows[0]) if rows else 0) > MAX_SIDE:
        raise MapError(f"a map has at most {MAX_SIDE} cells along a side")
    if not cells or len({len(row) for row in rows}) != 1:
        raise MapError("the rows of a map must be equally long")
    unknown = sorted(set(cells) - set("P_OG"))
    if unknown:
        raise MapError(f"{unknown[0]!r} is not a cell of a map: use P, _, O and G (or S, F, H and G)")
    if cells.count("P") != 1 or cells.count("G") != 1:
        raise MapError("a map has exactly one player and one goal")
    holes = frozenset(cell for cell, sign in enumerate(cells) if sign == "O")
    return Lake(len(rows[0]), len(rows), holes, cells.index("G"), cells.index("P"))


@lru_cache(maxsize=1024)
def make_lake(seed: int, size: int, frozen: float) -> Lake:
    """Return the random lake of a seed, drawn until start and goal are connected.

    Cached, since all trajectories of a group and every evaluation have the same lakes.
    """
    rng = SeededRng(seed, Stream.START)
    while True:
        holes = {cell for cell in range(size * size) if rng.uniform() >= frozen}
        start, goal = rng.sample(range(size * size), 2)
        lake = Lake(size, size, frozenset(holes - {start, goal}), goal, start)
        if start in lake.steps_to_goal():
            return lake


@lru_cache(maxsize=64)
def success_within(lake: Lake, slippery: bool, horizon: int) -> NDArray[np.float64]:
    """Return (K + 1, cells) maximum probabilities of reaching the goal within k actions, by value iteration.

    K is the maximum of the horizon and the number of cells, so that every connected cell gets a value.
    """
    count = lake.width * lake.height
    moves = np.zeros((4, count, count))
    for action in range(4):
        for cell in range(count):
            ends = lake.outcomes(cell, action, slippery=slippery)
            for end in ends:
                moves[action, cell, end] += 1 / len(ends)
    values = np.zeros((max(horizon, count) + 1, count))
    values[0, lake.goal] = 1.0
    for k in range(1, len(values)):
        values[k] = (moves @ values[k - 1]).max(axis=0)
    return values


def _paper_instruction(*, slippery: bool) -> str:
    """Return the content of the paper's prompt (appendix E.3)."""
    slips = " As the ice is slippery, you may move in another direction than you intend." if slippery else ""
    return (
        f"This is a FrozenLake puzzle. Keep out of the holes and get to the target.{slips} Example of an answer: "
        "<think>To stay out of the hole and get to the target, I should go left, then up.</think>"
        "<answer>Left || Up</answer>"
    )


class FrozenLake(TextEnv):
    """Walk over the ice to the goal. `reset(options={"map": text})` starts on a given map."""

    Settings: ClassVar[type[EnvSettings]] = FrozenLakeSettings
    trusted = True
    settings: FrozenLakeSettings

    def __init__(self, settings: EnvSettings | None = None, **overrides: Any) -> None:
        super().__init__(settings, **overrides)
        slips = " The ice is slippery: you may slide to the side." if self.settings.slippery else ""
        self.env_spec = EnvSpec(
            name="FrozenLake",
            title="FrozenLake",
            summary="Cross a lake of ice to the goal without falling into a hole, though the ice makes you slip.",
            instruction=f"Reach the goal and avoid the holes.{slips}",
            paper_instruction=_paper_instruction(slippery=self.settings.slippery),
            vocabulary=VOCABULARY,
            actions=ACTIONS,
            max_turns=5,
            max_actions_per_turn=5,
            max_actions=10,
            success="The player is on the goal.",
        )
        self.action_space: ActionNames = ActionNames(ACTIONS)
        self.observation_space = text_space(VOCABULARY, max_length=MAX_SIDE * (MAX_SIDE + 1))
        self._lake: Lake | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        options = read_options(options, {"map": "a text"})
        if seed is None:
            seed = int(self.np_random.integers(2**62))
        if "map" in options:
            self._lake = parse(options["map"])
        else:
            self._lake = make_lake(seed, self.settings.size, self.settings.frozen)
        self._dynamics = dynamics_rng(seed, options)
        self._values: NDArray[np.float64] | None = None
        self._cell = self._lake.start
        self._taken = 0
        self._over = False
        return self.render(), self._info(effective=False, valid=True)

    def reseed(self, seed: int) -> None:
        self._dynamics = SeededRng(seed, Stream.DYNAMICS)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        lake = self.lake
        if self._over:
            raise ResetNeeded("the episode is over: call reset() before the next step()")
        name = self.action_space.action_name(action)
        if name is None:
            return self.render(), 0.0, False, False, self._info(effective=False, valid=False)
        previous_cell, direction = self._cell, ACTIONS.index(name)
        if self.settings.slippery:
            direction = (direction - 1 + self._dynamics.below(3)) % 4
        self._cell = lake.neighbour(previous_cell, direction)
        self._taken += 1
        arrived = self._cell == lake.goal
        terminated = arrived or self._cell in lake.holes
        truncated = not terminated and self._taken == self.settings.max_steps
        self._over = terminated or truncated
        actual = ACTIONS[direction] if ACTIONS[direction] != name else None
        info = self._info(effective=self._cell != previous_cell, valid=True, actual=actual)
        return self.render(), float(arrived), terminated, truncated, info

    def render(self) -> str:
        """Return the lake in the symbols of the vocabulary, one line per row."""
        return self.lake.draw(self._cell)

    def board(self) -> GridBoard:
        """Return the lake in the characters of the frozen_lake theme."""
        return GridBoard(theme="frozen_lake", rows=self.render().translate(_BOARD).split("\n"))

    @classmethod
    def read_claims(cls, thought: str, board: GridBoard | ArmsBoard | PageBoard | TextBoard) -> list[Claim] | None:
        """Read claims about positions, directions, distances, neighbours and counts of the things on the board."""
        return read_grid_claims(thought, board)

    @classmethod
    def action_values(
        cls, board: GridBoard | ArmsBoard | PageBoard | TextBoard, settings: EnvSettings, actions_left: int
    ) -> dict[str, float] | None:
        """Return the probability of reaching the goal after each action on slippery ice, by value iteration."""
        if not (isinstance(board, GridBoard) and isinstance(settings, FrozenLakeSettings) and settings.slippery):
            return None
        rows = "\n".join(board.rows)
        if actions_left < 1 or rows.count("@") != 1:  # the episode is over
            return None
        lake = parse(rows.translate(_FROM_BOARD))
        cell, lake = lake.start, replace(lake, start=lake.goal)  # one entry of the cache for all cells
        values = success_within(lake, True, max(actions_left, lake.cells))[actions_left - 1]
        return {
            name: float(np.mean(values[lake.outcomes(cell, action, slippery=True)]))
            for action, name in enumerate(ACTIONS)
        }

    def hint(self) -> Hint:
        """Return all best next actions and the maximum probability of reaching the goal in the next `horizon` actions.

        The horizon starts at the current state, whatever actions were taken before, so that equal states get equal
        advice. Ties are broken by fewer actions; if the goal is beyond the horizon, the horizon is extended for the
        choice and the value remains 0. `distance` is given only without slips.
        """
        lake, slippery = self.lake, self.settings.slippery
        if self._cell in lake.holes:
            return Hint(value=0.0, solvable="no", reason="the player is in a hole")
        if self._cell == lake.goal:
            return Hint(value=1.0, distance=0)
        if self._values is None:
            self._values = success_within(lake, slippery, self.settings.horizon)
        values = self._values
        here = values[:, self._cell]
        best = here[self.settings.horizon]
        achievable = best if best > 0 else here[-1]
        if achievable == 0:
            return Hint(value=0.0, solvable="no", reason="no way leads to the goal")
        soonest = int(np.argmax(here >= achievable - _EQUAL))
        chances = [
            float(np.mean(values[soonest - 1, lake.outcomes(self._cell, action, slippery=slippery)]))
            for action in range(4)
        ]
        actions = [name for name, chance in zip(ACTIONS, chances, strict=True) if chance >= max(chances) - _EQUAL]
        return Hint(actions=actions, value=float(best), distance=None if slippery else soonest)

    @property
    def lake(self) -> Lake:
        """Return the map of this episode."""
        if self._lake is None:
            raise ResetNeeded("call reset() first")
        return self._lake

    @property
    def player(self) -> tuple[int, int]:
        """Return row and column of the player, counted from 0."""
        return divmod(self._cell, self.lake.width)

    @property
    def goal(self) -> tuple[int, int]:
        """Return row and column of the goal, counted from 0."""
        return divmod(self.lake.goal, self.lake.width)

    def _info(self, *, effective: bool, valid: bool, actual: str | None = None) -> dict[str, Any]:
        success = self._cell == self.lake.goal
        return {"success": success, "effective": effective, "valid": valid, "actual": actual}  # fields of StepInfo
