"""Interface of all environments: text in, text out, a drawable board, optional advice of a solver."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import gymnasium
from pydantic import BaseModel, ConfigDict, Field


class EnvSettings(BaseModel):
    """Settings of an environment. Subclasses add fields with ranges and descriptions; the launch form shows them."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ToolSpec(BaseModel):
    """A tool that an agent can call: name, description, and the arguments as a JSON schema of type object."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,127}$")
    description: str
    parameters: dict[str, Any] = Field(description="JSON schema of the arguments, of type object.")

    @property
    def properties(self) -> dict[str, dict[str, Any]]:
        """Return argument → its schema, in the order of the definition."""
        properties = self.parameters.get("properties")
        if not isinstance(properties, dict):
            return {}
        return {name: schema if isinstance(schema, dict) else {} for name, schema in properties.items()}

    def definition(self) -> dict[str, Any]:
        """Return the definition in the form of chat templates and APIs."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}


_GROUND = {"wall", "empty", "frozen", "floor", "no sticker"}
"""Meanings of symbols that fill a grid, so that a list of their places is useless."""


class EnvSpec(BaseModel):
    """Static description of an environment, for policies and viewers.

    `instruction` can be replaced per run, or by `paper_instruction`; everything else follows from the rules.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    title: str
    summary: str = Field(description="One sentence for users.")
    instruction: str = Field(description="The task, as the policy reads it.")
    paper_instruction: str = Field(
        "", description="The task with the content of the paper's prompt (arXiv 2504.20073); empty = it has none."
    )
    vocabulary: dict[str, str] = Field(description="Symbol of the text state → meaning, in prompt order.")
    actions: tuple[str, ...] = Field(description="Names of the actions; empty when any text is an action.")
    max_turns: int = Field(gt=0, description="Default budget of turns.")
    max_actions_per_turn: int = Field(gt=0, description="Default number of actions executed per turn.")
    max_actions: int = Field(gt=0, description="Default budget of actions per trajectory.")
    success: str = Field(description="Success condition in words.")
    tools: tuple[ToolSpec, ...] = Field((), description="Tools whose calls are actions, besides answers.")

    @property
    def has_grid(self) -> bool:
        """True if the text state contains rows of cells, one symbol of the vocabulary each."""
        return bool(self.vocabulary) and all(len(symbol) == 1 for symbol in self.vocabulary)

    def spaced(self, text: str) -> str:
        """Return a text state with a space between the cells of its grid; text without a grid is unchanged.

        Tokenizers merge neighbouring characters such as `____`. With spaces between them, each cell is a token.
        """
        if not self.has_grid:
            return text
        return "\n".join(" ".join(line) if self._is_row(line) else line for line in text.split("\n"))

    def located(self, text: str) -> str:
        """Return the same with a line after each grid that lists things by row and column from 1: `P 1,2. O 2,2 3,3.`

        Small models copy a position from a text long before they can count it out on a grid.
        """
        if not self.has_grid:
            return text
        lines: list[str] = []
        for is_grid, block in itertools.groupby(text.split("\n"), self._is_row):
            rows = list(block)
            lines += [" ".join(row) for row in rows] if is_grid else rows
            if is_grid and (places := self._places(rows)):
                lines.append(places)
        return "\n".join(lines)

    def _is_row(self, line: str) -> bool:
        return bool(line) and self.vocabulary.keys() >= set(line)

    def _places(self, rows: Sequence[str]) -> str:
        """List symbols in the order of the prompt, each with its places; symbols of the ground are left out."""
        cells_by_symbol = {
            symbol: [f"{r + 1},{c + 1}" for r, row in enumerate(rows) for c, cell in enumerate(row) if cell == symbol]
            for symbol, meaning in self.vocabulary.items()
            if meaning not in _GROUND
        }
        return " ".join(f"{symbol} {' '.join(places)}." for symbol, places in cells_by_symbol.items() if places)


Tone = Literal[
    "floor",
    "wall",
    "tile",
    "goal",
    "danger",
    "good",
    "bad",
    "white",
    "yellow",
    "orange",
    "red",
    "green",
    "blue",
    "piece",
    "player",
]
"""Style of a cell: `piece` and `player` are drawn as movable objects on the floor, all others as ground."""
MAX_GLYPH = 4


class Symbol(BaseModel):
    """Meaning of a character in a grid. The optional `glyph` has a few characters for the cell ("⚷", "A1", "2048")."""

    name: str = Field(min_length=1, max_length=40)
    tone: Tone = "floor"
    glyph: str | None = Field(default=None, max_length=MAX_GLYPH)


class GridBoard(BaseModel):
    """A grid, one character per cell. The theme defines the characters, or the board's own `legend`.

    Characters missing from a legend are plain floor. An unknown theme without a legend is drawn as text.

    `sokoban` (as in XSB files): `#` wall, space floor, `.` target, `$` box, `*` box on target, `@` player, `+` player
    on target. `frozen_lake`: space ice, `O` hole, `G` goal, `@` player, `X` player in a hole, `+` player on the goal.
    """

    kind: Literal["grid"] = "grid"
    theme: str
    rows: list[str]
    legend: dict[str, Symbol] | None = Field(default=None, description="Character → meaning.")


class Arm(BaseModel):
    """One arm of a bandit."""

    name: str
    pulls: int = 0
    total: float = 0.0
    last: float | None = None


class ArmsBoard(BaseModel):
    """The arms of a bandit, in the order in which the policy reads them."""

    kind: Literal["arms"] = "arms"
    arms: list[Arm]


class PageItem(BaseModel):
    """An item of a page. `action` is the action that uses it; without an action it is a plain line."""

    text: str
    detail: str = Field(default="", description="Additional text, such as a price.")
    action: str = ""
    chosen: bool = False


class PageSection(BaseModel):
    """A section of a page: a note, a row of buttons, a list of links, choices under a heading, or paragraphs."""

    layout: Literal["note", "buttons", "list", "choices", "text"]
    title: str = ""
    items: list[PageItem]


class PageBoard(BaseModel):
    """A page of a site: heading, breadcrumbs ("shop › results › page 2"), sections, and the last action."""

    kind: Literal["page"] = "page"
    title: str
    address: str
    sections: list[PageSection]
    last: str | None = Field(default=None, description="The action that led here.")


class TextBoard(BaseModel):
    """Plain text, for environments without a drawable board, or with a grid that needs text, such as a question."""

    kind: Literal["text"] = "text"
    text: str
    grid: GridBoard | None = Field(default=None, description="Drawn beside the text.")


Board = Annotated[GridBoard | ArmsBoard | PageBoard | TextBoard, Field(discriminator="kind")]


class Hint(BaseModel):
    """A solver's advice about the current state.

    `solvable` is "unknown" if the solver's budget ran out. `distance` counts actions of optimal play to success (None
    if unsolvable, unknown or meaningless). `value` is the expected return or success probability of optimal play if
    dynamics are random. `reason` says why the state is lost ("the box is in a corner").
    """

    actions: list[str] = Field(default_factory=list, description="Every best next action, best first.")
    distance: int | None = None
    value: float | None = None
    solvable: Literal["yes", "no", "unknown"] = "yes"
    reason: str | None = None


class Claim(BaseModel):
    """A statement of a thought about the state, compared with the board.

    `start` and `end` are characters of the thought (code points, from 0, end exclusive). `kind` is its subject, a name
    in envs.claims.kinds.CLAIM_KINDS; others count as "other". `actual` describes the true state; None for true claims.
    Viewers highlight `cells`, rows and columns of a grid from 0, and `marks`, names of arms or texts of a page's items;
    `actual_cells` are the true cells of a misplaced thing. None if there is nothing to highlight. `placed` is set if a
    false distance puts a thing into `cells`: the kind of a claim about the position of that thing.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    start: int = Field(ge=0)
    end: int = Field(gt=0)
    true: bool
    kind: str | None = None
    actual: str | None = None
    cells: list[tuple[int, int]] | None = None
    actual_cells: list[tuple[int, int]] | None = None
    marks: list[str] | None = None
    placed: str | None = None


class StepInfo(BaseModel):
    """Contents of the info dictionary of `reset` and `step` (a plain dict), for viewers and metrics."""

    success: bool
    effective: bool = Field(description="The action changed the state.")
    valid: bool = Field(description="The action is one of the environment's.")
    actual: str | None = Field(default=None, description="The action that was executed, where it differs (a slip).")


class CallRecord(BaseModel):
    """A tool call and its result. `tool` is empty if the call cannot be read."""

    model_config = ConfigDict(extra="forbid")

    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    result: str = Field(description="What the policy reads: the result, or why there is none.")
    failed: bool = Field(default=False, description="There is no result: a bad call, or an error of the tool.")


class ToolStepInfo(StepInfo):
    """`StepInfo` of an action that was a tool call."""

    call: CallRecord


def checked_info(info: dict[str, Any]) -> dict[str, Any]:
    """Validate the info dictionary of a reset or step. Raises ValidationError."""
    return (ToolStepInfo if "call" in info else StepInfo).model_validate(info).model_dump()


class TextEnv(gymnasium.Env[str, str]):
    """A Gymnasium environment whose observations and actions are text.

    `reset(seed=…, options={"dynamics_seed": …})`: `seed` determines the initial state, `dynamics_seed` (default:
    derived from `seed`) all later randomness, so that trajectories of a group share the former but not the latter. The
    info dictionaries of `reset` and `step` have the fields of `StepInfo`.

    `step` takes one action by name, case-insensitively. An unknown action costs nothing, changes nothing and is
    reported as `valid=False`; the trainer applies the penalty.

    Attributes:
        Settings: model of the environment's settings.
        trusted: True if every call is known to return promptly. Other environments run in a sandbox process with
            time-outs, so that a hang or crash ends only its trajectory.
        variables: environment variables that the class reads; a sandbox process receives only these and basic ones.
        env_spec: description of the environment (`spec` is Gymnasium's registration record).
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 4}  # type: ignore[misc]
    render_mode = "ansi"
    Settings: ClassVar[type[EnvSettings]] = EnvSettings
    trusted: ClassVar[bool] = False
    variables: ClassVar[tuple[str, ...]] = ()
    env_spec: EnvSpec

    @classmethod
    def describe(cls, settings: EnvSettings) -> EnvSpec:
        """Describe the environment with these settings before an episode, for forms, pages and default budgets.

        By default this is the description with default settings. Adapters, whose settings choose among many variants,
        override it.

        Raises:
            ValueError: an adapter cannot make the variant.
        """
        return cls(cls.Settings()).env_spec

    @classmethod
    def variants(cls) -> dict[str, str]:
        """Return values of the setting `id`, each a separate environment, with a short text on each; {} without any."""
        return {}

    def __init__(self, settings: EnvSettings | None = None, **overrides: Any) -> None:
        self.settings = settings if settings is not None else self.Settings(**overrides)

    @classmethod
    def replay_problem(cls, settings: EnvSettings) -> str:
        """Return why an episode must not be played again from its seeds and actions, as a clause; "" if it may.

        By default it may, and the text of every state is compared with the recorded one. An environment whose actions
        have effects elsewhere, for example a server's tools, overrides this method.
        """
        return ""

    def reseed(self, seed: int) -> None:
        """Draw all later randomness from another dynamics seed; no-op if nothing is random, or it cannot be done."""

    def prepare(self) -> None:
        """Load shared data, such as files, before copies of the process are made. Called unless `trusted`."""

    @abstractmethod
    def render(self) -> str:
        """Return the text that the policy reads."""

    @abstractmethod
    def board(self) -> GridBoard | ArmsBoard | PageBoard | TextBoard:
        """Return the board that a viewer draws."""

    @classmethod
    def read_claims(cls, thought: str, board: GridBoard | ArmsBoard | PageBoard | TextBoard) -> list[Claim] | None:
        """Return statements of a thought about the state, each true or false; uncertain statements are left out.

        None if this environment compares nothing. The site also calls it, on boards of any age, so it must return
        promptly for any text.

        Args:
            thought: text of the policy.
            board: the state before the turn, which the policy had read.
        """
        return None

    @classmethod
    def action_values(
        cls, board: GridBoard | ArmsBoard | PageBoard | TextBoard, settings: EnvSettings, actions_left: int
    ) -> dict[str, float] | None:
        """Return by action the chance of success if it is taken and optimal play follows within the actions left.

        None if nothing is random, or the chances are unknown; viewers then compare the hints before and after an
        action. An action is judged by this expectation, so that a bad outcome of a good action is no mistake. The site
        also calls it, on boards of any age, so it must return promptly.

        Args:
            board: the state before the action.
            settings: settings of the environment.
            actions_left: the agent's budget, including this action.
        """
        return None

    def hint(self) -> Hint | None:
        """Return a solver's advice about the current state; None without a solver."""
        return None
