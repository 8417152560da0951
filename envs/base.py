"""The contract every world keeps: text in, text out, a drawable board, and optional advice from a solver.

No rules of any particular world live here, and nothing here knows about models, training or the web.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal

import gymnasium
from pydantic import BaseModel, ConfigDict, Field


class EnvSettings(BaseModel):
    """Settings of an environment. Subclasses add fields with ranges and help; the launch form draws them."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class EnvSpec(BaseModel):
    """What a policy and a viewer must know about an environment before its first state.

    The wording of `instruction` is settable per run; everything else follows from the rules.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    title: str
    summary: str = Field(description="One sentence for people.")
    instruction: str = Field(description="What the policy is asked to do.")
    vocabulary: dict[str, str] = Field(description="Symbol of the text state → its meaning, in prompt order.")
    actions: tuple[str, ...] = Field(description="Names of the actions; empty when any text is an action.")
    max_turns: int = Field(gt=0, description="Default budget of turns.")
    max_actions_per_turn: int = Field(gt=0, description="Default number of actions executed per turn.")
    max_actions: int = Field(gt=0, description="Default budget of actions per trajectory.")
    success: str = Field(description="When an episode counts as a success, in words.")


Tone = Literal["floor", "wall", "goal", "danger", "good", "bad", "piece", "player"]
"""How a cell is drawn: the first six as ground, `piece` and `player` as something that stands on it and may move."""


class Symbol(BaseModel):
    """What a character of a grid stands for. `glyph` is a sign or two drawn on the cell ("⚷", "A1"); none is needed."""

    name: str = Field(min_length=1, max_length=40)
    tone: Tone = "floor"
    glyph: str | None = Field(default=None, max_length=2)


class GridBoard(BaseModel):
    """A grid, one character a cell. The theme says what the characters mean, or else the board's own `legend` does.

    A legend names characters; those it leaves out are plain floor. A viewer draws an unknown theme without one as text.

    `sokoban` (as in XSB files): `#` wall, space floor, `.` target, `$` box, `*` box on target, `@` player, `+` player
    on target. `frozen_lake`: space ice, `O` hole, `G` goal, `@` player, `X` player in a hole, `+` player on the goal.
    """

    kind: Literal["grid"] = "grid"
    theme: str
    rows: list[str]
    legend: dict[str, Symbol] | None = Field(default=None, description="Character → what it stands for.")


class Arm(BaseModel):
    """One arm of a bandit as a viewer sees it."""

    name: str
    pulls: int = 0
    total: float = 0.0
    last: float | None = None


class ArmsBoard(BaseModel):
    """The arms of a bandit, in the order in which the policy reads them."""

    kind: Literal["arms"] = "arms"
    arms: list[Arm]


class PageItem(BaseModel):
    """Something on a page. `action` is what is typed to use it; without one it is a plain line."""

    text: str
    detail: str = Field(default="", description="Told beside it, such as a price.")
    action: str = ""
    chosen: bool = False


class PageSection(BaseModel):
    """A part of a page: a note, buttons in a row, a list of links, choices under a heading, or paragraphs."""

    layout: Literal["note", "buttons", "list", "choices", "text"]
    title: str = ""
    items: list[PageItem]


class PageBoard(BaseModel):
    """A page of a site: a heading, where it lies ("shop › results › page 2"), its parts, and how one came to it."""

    kind: Literal["page"] = "page"
    title: str
    address: str
    sections: list[PageSection]
    last: str | None = Field(default=None, description="The action that led here.")


class TextBoard(BaseModel):
    """Plain text, for worlds that have nothing better to draw."""

    kind: Literal["text"] = "text"
    text: str


Board = Annotated[GridBoard | ArmsBoard | PageBoard | TextBoard, Field(discriminator="kind")]


class Hint(BaseModel):
    """Advice of a solver about the present state.

    `solvable` is "unknown" when the solver's budget ran out. `distance` counts actions of optimal play to success
    (None where unsolvable, unknown or meaningless). `value` is the expected return or success probability of optimal
    play where dynamics are random. `reason` says in words why nothing can be won any more ("the box is in a corner").
    """

    actions: list[str] = Field(default_factory=list, description="Every best next action, best first.")
    distance: int | None = None
    value: float | None = None
    solvable: Literal["yes", "no", "unknown"] = "yes"
    reason: str | None = None


class StepInfo(BaseModel):
    """What `step` puts into its info dictionary (as a plain dict): the facts a viewer and the metrics need."""

    success: bool
    effective: bool = Field(description="The action changed the state.")
    valid: bool = Field(description="The action is one of the environment's.")
    actual: str | None = Field(default=None, description="What the dynamics did where it differs (a slip).")


class TextEnv(gymnasium.Env[str, str]):
    """A Gymnasium environment whose observations and actions are text.

    `reset(seed=…, options={"dynamics_seed": …})`: `seed` draws the initial state, `dynamics_seed` (default: derived
    from `seed`) draws everything random that happens afterwards, so that trajectories of one group share the first and
    not the second. The info dictionaries of `reset` and `step` hold the fields of `StepInfo`.

    `step` takes one action by name, case-insensitively. An unknown action costs nothing, changes nothing and is
    reported as `valid=False`: the penalty for it is the trainer's business.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 4}  # type: ignore[misc]
    render_mode = "ansi"
    Settings: ClassVar[type[EnvSettings]] = EnvSettings
    trusted: ClassVar[bool] = False
    """Every call is known to return at once. All others are played in a process of their own (guarded.py), with a
    time-out, so that one that hangs or crashes ends its own trajectory and nothing else."""
    world: EnvSpec  # not `spec`: Gymnasium keeps its own registration record under that name

    def __init__(self, settings: EnvSettings | None = None, **overrides: Any) -> None:
        self.settings = settings if settings is not None else self.Settings(**overrides)

    def prepare(self) -> None:
        """Load now what `reset` would load and all copies share, such as files of data; done once before many are made.

        Only environments that are not `trusted` are asked to.
        """

    @abstractmethod
    def render(self) -> str:
        """The text the policy reads."""

    @abstractmethod
    def board(self) -> GridBoard | ArmsBoard | PageBoard | TextBoard:
        """What a viewer draws: pure data, no rules."""

    def hint(self) -> Hint | None:
        """A solver's advice about the present state; None where the environment has no solver."""
        return None
