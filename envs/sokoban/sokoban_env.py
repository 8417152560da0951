"""Sokoban environment.

Reward of an action: −0.1; +1 if the number of boxes on targets rises, −1 if it falls; +10 when all are on targets.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar, Literal, Self

from gymnasium.error import ResetNeeded
from pydantic import Field, model_validator

from envs.base import ArmsBoard, Claim, EnvSettings, EnvSpec, GridBoard, Hint, PageBoard, TextBoard, TextEnv
from envs.claims.grid_claims import read_grid_claims
from envs.sokoban import levels, moves, rooms, solver
from envs.sokoban.exact import Advisor
from envs.sokoban.moves import ACTIONS, State
from envs.spaces import ActionNames, text_space
from envs.support.reset_options import read_options
from envs.support.rng import SeededRng, Stream

STEP_COST = -0.1
BOX_REWARD = 1.0
SOLVED_REWARD = 10.0
REWARDS = tuple(
    tuple(round(STEP_COST + BOX_REWARD * rise + SOLVED_REWARD * solved, 10) for rise in (0, 1, -1))
    for solved in (False, True)
)
"""Reward of an action by [solved][rise]; rise is the sign of the change of the number of boxes on targets."""

PAPER_INSTRUCTION = (
    "This is a Sokoban puzzle. You are the player, and every box has to be pushed onto a target. If a box is next to "
    "you, a step towards it pushes it on. A box can neither be pushed through a wall nor pulled. Answer with a "
    "sequence of actions, such as <answer>Right || Right || Up</answer>."
)
"""The content of the paper's prompt (appendix E.2)."""


class SokobanSettings(EnvSettings):
    """Settings of the rooms."""

    size: int = Field(6, ge=5, le=20, description="Cells along each side of the room, walls included.")
    boxes: int = Field(1, ge=1, le=4, description="Boxes, and targets for them.")
    min_length: int = Field(1, ge=1, le=100, description="Shortest optimal solution of a room, in actions.")
    max_length: int = Field(10, ge=1, le=100, description="Longest optimal solution of a room, in actions.")
    typical_length: int | None = Field(
        None,
        ge=1,
        le=100,
        description="Length that most optimal solutions are near, between the shortest and the longest; empty = short "
        "ones prevail.",
    )
    vocabulary: Literal["standard", "letters"] = Field(
        "standard", description="Symbols of the text: standard (# _ O √ X P S) or letters (W . G C B A @)."
    )
    max_steps: int | None = Field(
        None, ge=1, description="Actions after which the environment itself ends the episode; empty = never."
    )

    @model_validator(mode="after")
    def possible(self) -> Self:
        if self.min_length > self.max_length:
            raise ValueError(f"min_length {self.min_length} is above max_length {self.max_length}")
        if self.boxes > self.max_length:
            raise ValueError(
                f"{self.boxes} boxes need at least as many actions: max_length {self.max_length} is too short"
            )
        if 4 * self.boxes > (self.size - 2) ** 2:
            raise ValueError(f"{self.boxes} boxes do not fit into a room of size {self.size}: take a larger room")
        return self


class Sokoban(TextEnv):
    """Push every box onto a target. `reset(options={"room": text})` starts from a given room.

    `options["boxes_on_target"]` overrides the count that the first action is compared with (default: as in the room).
    """

    Settings: ClassVar[type[EnvSettings]] = SokobanSettings
    trusted = True
    settings: SokobanSettings
    NAME: ClassVar[str] = "Sokoban"
    SUMMARY: ClassVar[str] = "Push a box onto its target in a small room of walls; a wrong push cannot be taken back."

    def __init__(self, settings: EnvSettings | None = None, **overrides: Any) -> None:
        super().__init__(settings, **overrides)
        many = self.settings.boxes > 1
        self.env_spec = EnvSpec(
            name=self.NAME,
            title=self.NAME,
            summary=self.SUMMARY,
            instruction=(
                f"Push {'every box onto a target' if many else 'the box onto the target'}. "
                "Boxes can be pushed, never pulled."
            ),
            paper_instruction=PAPER_INSTRUCTION,
            vocabulary=levels.meanings(self.settings.vocabulary),
            actions=ACTIONS,
            max_turns=5,
            max_actions_per_turn=5,
            max_actions=10,
            success="Every box is on a target.",
        )
        self.action_space: ActionNames = ActionNames(ACTIONS)
        self.observation_space = text_space(
            self.env_spec.vocabulary, max_length=levels.MAX_SIDE * (levels.MAX_SIDE + 1)
        )
        self._level: levels.Level | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        options = read_options(options, {"room": "a text"}, {"boxes_on_target": "a whole number"})
        if "room" in options:
            level = levels.parse(options["room"])
        else:
            if seed is None:
                seed = int(self.np_random.integers(2**62))
            level = self._draw(seed)
        self._level = level
        self._advisor: Advisor | None = None
        self._canvas = canvas(level, self.settings.vocabulary)
        self._steps = dict(zip(ACTIONS, moves.steps(level.width), strict=True))
        self._state: State = (level.player, tuple(sorted(level.boxes)))
        self.boxes_on_target = int(options.get("boxes_on_target", len(level.boxes & level.targets)))
        self._taken = 0
        self._over = False
        return self.render(), self._info(effective=False, valid=True)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        level = self.level
        if self._over:
            raise ResetNeeded("the episode is over: call reset() before the next step()")
        name = self.action_space.action_name(action)
        if name is None:
            return self.render(), 0.0, False, False, self._info(effective=False, valid=False)
        previous = self._state
        self._state = moves.move(level.floor, previous, self._steps[name])
        self._taken += 1
        on_target = len(level.targets.intersection(self._state[1]))
        rise = (on_target > self.boxes_on_target) - (on_target < self.boxes_on_target)
        self.boxes_on_target = on_target
        solved = on_target == len(level.boxes)
        out_of_steps = not solved and self._taken == self.settings.max_steps
        self._over = solved or out_of_steps
        info = self._info(effective=self._state != previous, valid=True)
        return self.render(), REWARDS[solved][rise], solved, out_of_steps, info

    def render(self) -> str:
        """Return the room in the symbols of the vocabulary, one line per row."""
        level, (player, boxes) = self.level, self._state
        width, targets, symbols = level.width, level.targets, levels.SYMBOLS[self.settings.vocabulary]
        cells = self._canvas.copy()
        for box in boxes:
            cells[box + box // width] = symbols[3 if box in targets else 4]
        cells[player + player // width] = symbols[6 if player in targets else 5]
        return "".join(cells)

    def board(self) -> GridBoard:
        """Return the room in XSB characters."""
        return GridBoard(theme="sokoban", rows=self._rows())

    @classmethod
    def read_claims(cls, thought: str, board: GridBoard | ArmsBoard | PageBoard | TextBoard) -> list[Claim] | None:
        """Read claims about positions, directions, distances, neighbours and counts of the things on the board."""
        return read_grid_claims(thought, board)

    def hint(self) -> Hint:
        """Return the best next actions and the number of actions to success, regardless of any action budget.

        In rooms too large for exhaustive play the advice follows a plan found by search, without a distance.
        """
        return self._solver().hint(self._state)

    def plan(self) -> list[str]:
        """Return a sequence of actions to success, shortest if `hint` has a distance; empty if there is none."""
        return self._solver().plan(self._state)

    @property
    def level(self) -> levels.Level:
        """Return the room of this episode at its start."""
        if self._level is None:
            raise ResetNeeded("call reset() first")
        return self._level

    @property
    def player(self) -> tuple[int, int]:
        """Return row and column of the player, counted from 0."""
        return self._place(self._state[0])

    @property
    def boxes(self) -> list[tuple[int, int]]:
        """Return row and column of each box, row by row."""
        return [self._place(cell) for cell in self._state[1]]

    @property
    def targets(self) -> list[tuple[int, int]]:
        """Return row and column of each target, row by row."""
        return [self._place(cell) for cell in sorted(self.level.targets)]

    def _draw(self, seed: int) -> levels.Level:
        """Return the room of a seed."""
        room = self.settings
        return _make_room(seed, room.size, room.boxes, room.min_length, room.max_length, room.typical_length)

    def _solver(self) -> Advisor:
        """Return the solver of this room, cached for the episode."""
        if self._advisor is None:
            self._advisor = solver.get_solver(self.level)
        return self._advisor

    def _place(self, cell: int) -> tuple[int, int]:
        return divmod(cell, self.level.width)

    def _rows(self) -> list[str]:
        return self.level.rows(self._state[1], self._state[0])

    def _info(self, *, effective: bool, valid: bool) -> dict[str, Any]:
        success = self.level.targets.issuperset(self._state[1])
        return {"success": success, "effective": effective, "valid": valid, "actual": None}  # fields of StepInfo


@lru_cache(maxsize=1024)
def _make_room(seed: int, size: int, boxes: int, shortest: int, longest: int, typical: int | None) -> levels.Level:
    """Make the room of a seed. Cached, since all trajectories of a group and every evaluation have the same rooms."""
    return rooms.make_room(SeededRng(seed, Stream.START), size, boxes, shortest, longest, typical)


def canvas(level: levels.Level, vocabulary: str) -> list[str]:
    """Return characters of a room's text without boxes and player; cell c of the level has index c + c // width."""
    cells = list(levels.format_rows(level.rows(()), vocabulary))
    player = level.player
    cells[player + player // level.width] = levels.SYMBOLS[vocabulary][2 if player in level.targets else 1]
    return cells


class LargeSokobanSettings(SokobanSettings):
    """Settings of larger rooms with two boxes."""

    size: int = Field(8, ge=5, le=20, description="Cells along each side of the room, walls included.")
    boxes: int = Field(2, ge=1, le=4, description="Boxes, and targets for them.")
    typical_length: int | None = Field(
        6,
        ge=1,
        le=100,
        description="Length that most optimal solutions are near, between the shortest and the longest; empty = short "
        "ones prevail.",
    )


class LargeSokoban(Sokoban):
    """Sokoban in 8×8 rooms with two boxes."""

    Settings = LargeSokobanSettings
    NAME = "LargeSokoban"
    SUMMARY = "Sokoban in a larger room with two boxes."


class SokobanNewVocabSettings(SokobanSettings):
    """Settings of rooms with other symbols."""

    vocabulary: Literal["standard", "letters"] = Field(
        "letters", description="Symbols of the text: standard (# _ O √ X P S) or letters (W . G C B A @)."
    )


class SokobanNewVocab(Sokoban):
    """Sokoban written in symbols that a policy trained on the standard symbols has not seen."""

    Settings = SokobanNewVocabSettings
    NAME = "SokobanNewVocab"
    SUMMARY = "The rooms of Sokoban, written in symbols that the policy did not train on."
