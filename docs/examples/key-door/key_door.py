"""Key and door: fetch the key, walk through the door to the goal, keep off the lava."""

from collections import deque
from typing import Any, ClassVar

from gymnasium.error import ResetNeeded
from pydantic import Field

from envs.base import EnvSettings, EnvSpec, GridBoard, Hint, StepInfo, Symbol, TextEnv
from envs.spaces import ActionNames, text_space
from envs.support.rng import SeededRng, Stream

MOVES = {"Up": (-1, 0), "Down": (1, 0), "Left": (0, -1), "Right": (0, 1)}
SYMBOLS = {
    "#": Symbol(name="wall", tone="wall"),
    "_": Symbol(name="floor"),
    "K": Symbol(name="key", tone="piece", glyph="⚷"),
    "D": Symbol(name="locked door", tone="bad", glyph="▥"),
    "~": Symbol(name="lava", tone="danger", glyph="≈"),
    "G": Symbol(name="goal", tone="goal", glyph="⚑"),
    "P": Symbol(name="player", tone="player"),
}
State = tuple[tuple[int, int], bool]  # row and column of the player, and whether it has the key


class KeyDoorSettings(EnvSettings):
    size: int = Field(6, ge=5, le=12, description="Cells along each side of the room, walls included.")
    lava: int = Field(2, ge=0, le=20, description="Cells of lava, limited by the free cells.")


class KeyDoor(TextEnv):
    Settings: ClassVar[type[EnvSettings]] = KeyDoorSettings
    settings: KeyDoorSettings
    env_spec = EnvSpec(
        name="KeyDoor",
        title="Key and door",
        vocabulary={sign: symbol.name for sign, symbol in SYMBOLS.items()},
        summary="Fetch the key, walk through the door to the goal, and keep off the lava.",
        instruction="Fetch the key, which opens the door, and reach the goal. Lava is deadly.",
        actions=tuple(MOVES),
        max_turns=5,
        max_actions_per_turn=5,
        max_actions=20,
        success="The player is on the goal.",
    )

    def __init__(self, settings: EnvSettings | None = None, **overrides: Any) -> None:
        super().__init__(settings, **overrides)
        self.action_space: ActionNames = ActionNames(self.env_spec.actions)
        self.observation_space = text_space(SYMBOLS, max_length=12 * 13)
        self.over = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        rng = SeededRng(int(self.np_random.integers(2**62)) if seed is None else seed, Stream.START)
        self.state: State = (self.build(rng), False)
        while self.distance(self.state) is None:
            self.state = (self.build(rng), False)
        self.over = False
        return self.render(), self.info(effective=False)

    def build(self, rng: SeededRng) -> tuple[int, int]:
        """Generate a room with a dividing wall, a door in it and the goal behind it. Returns the player's cell."""
        inside, wall = range(1, self.settings.size - 1), 2 + rng.below(self.settings.size - 4)
        cells = [(r, c) for r in range(self.settings.size) for c in range(self.settings.size)]
        self.cells = {(r, c): "_" if r in inside and c in inside and c != wall else "#" for r, c in cells}
        start, key = rng.sample([(r, c) for r in inside for c in inside if c < wall], 2)
        goal = rng.choice([(r, c) for r in inside for c in inside if c > wall])
        self.cells |= {key: "K", goal: "G", (rng.choice(inside), wall): "D"}
        free = [cell for cell, sign in self.cells.items() if sign == "_" and cell != start]
        self.cells |= dict.fromkeys(rng.sample(free, min(self.settings.lava, len(free))), "~")
        return start

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self.over:
            raise ResetNeeded("the episode is over: call reset() before the next step()")
        if (name := self.action_space.action_name(action)) is None:
            return self.render(), 0.0, False, False, self.info(effective=False, valid=False)
        before, self.state = self.state, self.after(self.state, name)
        self.over = (ground := self.cells[self.state[0]]) in "G~"
        return self.render(), 10.0 if ground == "G" else -0.1, self.over, False, self.info(self.state != before)

    def after(self, state: State, action: str) -> State:
        (row, column), has_key = state
        cell = (row + MOVES[action][0], column + MOVES[action][1])
        closed = self.cells[cell] == "#" or (self.cells[cell] == "D" and not has_key)
        return state if closed else (cell, has_key or self.cells[cell] == "K")

    def distance(self, start: State) -> int | None:
        """Fewest actions to the goal; None if unreachable."""
        distances, queue = {start: 0}, deque([start])
        while queue:
            state = queue.popleft()
            if self.cells[state[0]] == "G":
                return distances[state]
            for successor in (self.after(state, action) for action in MOVES if self.cells[state[0]] != "~"):
                if successor not in distances:
                    distances[successor] = distances[state] + 1
                    queue.append(successor)
        return None

    def render(self) -> str:
        (position, has_key), side = self.state, range(self.settings.size)
        signs = {cell: "_" if has_key and sign in "KD" else sign for cell, sign in self.cells.items()} | {position: "P"}
        return "\n".join("".join(signs[row, column] for column in side) for row in side)

    def board(self) -> GridBoard:
        return GridBoard(theme="key_door", rows=self.render().split("\n"), legend=SYMBOLS)

    def hint(self) -> Hint:
        if (distance := self.distance(self.state)) is None:
            return Hint(solvable="no", reason="the player is in the lava")
        best = [name for name in MOVES if distance and self.distance(self.after(self.state, name)) == distance - 1]
        return Hint(actions=best, distance=distance)

    def info(self, effective: bool, valid: bool = True) -> dict[str, Any]:
        return StepInfo(success=self.cells[self.state[0]] == "G", effective=effective, valid=valid).model_dump()
