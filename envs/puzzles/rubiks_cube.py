"""Rubik's cube environment: undo a few random quarter turns, on the pocket cube (2×2×2) or the standard cube.

Reward of a turn: −0.01, and +1 when the cube is solved. Reasons: a nearly solved cube often looks no better than a
scrambled one, so that partial credit for stickers would mislead; the cost makes shorter solutions better, and is small
enough that a late solution always pays more than none within the budget.
"""

from __future__ import annotations

from math import ceil
from typing import Any, ClassVar

from gymnasium.error import ResetNeeded
from pydantic import Field

from envs.base import EnvSettings, EnvSpec, GridBoard, Hint, StepInfo, Symbol, TextEnv, Tone
from envs.puzzles.cube_search import get_solver
from envs.puzzles.cube_turns import get_cube, inverse
from envs.spaces import ActionNames, text_space
from envs.support.reset_options import read_options
from envs.support.rng import SeededRng, Stream

STEP_COST = -0.01
SOLVED_REWARD = 1.0
MIN_ACTIONS = 10
ACTIONS_PER_TURN = 5
MAX_SCRAMBLE = 20
OUTSIDE = "."
_COLOURS: dict[str, Tone] = {"W": "white", "O": "orange", "G": "green", "R": "red", "B": "blue", "Y": "yellow"}
VOCABULARY = {**_COLOURS, OUTSIDE: "no sticker"}
LEGEND = {
    **{sign: Symbol(name=colour, tone=colour, glyph=sign) for sign, colour in _COLOURS.items()},
    OUTSIDE: Symbol(name="no sticker", tone="wall"),
}


class RubiksCubeSettings(EnvSettings):
    """Settings of the cubes."""

    size: int = Field(2, ge=2, le=3, description="Stickers along each edge: 2 (pocket cube, three faces turn) or 3.")
    scramble: int = Field(
        3,
        ge=1,
        le=MAX_SCRAMBLE,
        description="Random quarter turns at the start. The solver finds shortest solutions of up to 14 turns for size "
        "2 and 6 for size 3; otherwise it takes turns back.",
    )


class RubiksCube(TextEnv):
    """Turn faces of a cube. `reset(options={"turns": "R U F'"})` starts with given turns of the solved cube."""

    Settings: ClassVar[type[EnvSettings]] = RubiksCubeSettings
    settings: RubiksCubeSettings
    trusted = True

    def __init__(self, settings: EnvSettings | None = None, **overrides: Any) -> None:
        super().__init__(settings, **overrides)
        self.cube = get_cube(self.settings.size)
        turns = max(MIN_ACTIONS, 2 * self.settings.scramble) / ACTIONS_PER_TURN
        self.env_spec = EnvSpec(
            name="RubiksCube",
            title="Rubik's cube",
            summary="Turn the faces of a scrambled cube until each has one colour.",
            instruction=(
                "Give each face one colour. Net: U on top, L F R B in the middle, D below. U turns clockwise, U' back."
            ),
            vocabulary=dict(VOCABULARY),
            actions=self.cube.turns,
            max_turns=max(5, ceil(turns)),
            max_actions_per_turn=ACTIONS_PER_TURN,
            max_actions=ceil(turns) * ACTIONS_PER_TURN,
            success="Every face has one colour.",
        )
        self.action_space: ActionNames = ActionNames(self.env_spec.actions)
        self.observation_space = text_space(VOCABULARY, max_length=9 * 13)
        self._state: str | None = None

    @classmethod
    def describe(cls, settings: EnvSettings) -> EnvSpec:
        """Describe the cube with these settings: its size determines the actions, and the scramble the budgets."""
        return cls(settings).env_spec

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        options = read_options(options, {"turns": "a text"})
        if "turns" in options:
            turns = self._read(options["turns"])
        else:
            rng = SeededRng(int(self.np_random.integers(2**62)) if seed is None else seed, Stream.START)
            turns = self.cube.scramble(rng, self.settings.scramble)
        self._state = self.cube.solved
        self._history: list[str] = []
        for turn in turns:
            self._turn(turn)
        return self.render(), self._info(effective=False, valid=True)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self.state == self.cube.solved:
            raise ResetNeeded("the episode is over: call reset() before the next step()")
        name = self.action_space.action_name(action)
        if name is None:
            return self.render(), 0.0, False, False, self._info(effective=False, valid=False)
        self._turn(name)
        solved = self._state == self.cube.solved
        reward = STEP_COST + SOLVED_REWARD * solved
        return self.render(), reward, solved, False, self._info(effective=True, valid=True)

    def render(self) -> str:
        """Return the unfolded cube, one letter per sticker."""
        return "\n".join(self.cube.net(self.state, OUTSIDE))

    def board(self) -> GridBoard:
        """Return the unfolded cube in the colours of its stickers."""
        return GridBoard(theme="rubiks_cube", rows=self.cube.net(self.state, OUTSIDE), legend=LEGEND)

    def hint(self) -> Hint:
        """Return all turns that begin a shortest solution, and its length.

        Beyond the solver's reach: the turn that undoes the last one, without a distance.
        """
        solution = get_solver(self.settings.size).advice(self.state)
        if solution is None:
            return Hint(actions=[inverse(self._history[-1])])
        return Hint(actions=list(solution.turns), distance=solution.distance)

    @property
    def state(self) -> str:
        """Return the colours of the stickers: faces U L F R B D, each row by row."""
        if self._state is None:
            raise ResetNeeded("call reset() first")
        return self._state

    def _turn(self, name: str) -> None:
        """Turn a face, and remember which turns have not been undone."""
        self._state = self.cube.turn(self.state, name)
        if self._history and self._history[-1] == inverse(name):
            self._history.pop()
        else:
            self._history.append(name)

    def _read(self, text: str) -> tuple[str, ...]:
        """Return turns in standard notation, separated by spaces.

        Raises ValueError for others and for a solved cube.
        """
        turns = tuple(text.split())
        state = self.cube.solved
        for turn in turns:
            if turn not in self.cube.turns:
                names = ", ".join(self.cube.turns)
                raise ValueError(f"{turn!r} is no turn of a cube of size {self.settings.size}: use {names}")
            state = self.cube.turn(state, turn)
        if state == self.cube.solved:
            raise ValueError("these turns leave the cube solved: give others")
        return turns

    def _info(self, *, effective: bool, valid: bool) -> dict[str, Any]:
        return StepInfo(success=self.state == self.cube.solved, effective=effective, valid=valid).model_dump()
