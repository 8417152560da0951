"""Questions to a sampler process about recorded attempts, and its answers: JSON lines (docs/branching.md).

Turns are counted from 0, as in the journal. Imports no torch: sites write the questions, and trust no answer.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from trainer.journal.events import TrajectoryFinished, TrajectoryTokens, Turn

MAX_LINE = 1 << 20
"""Maximum length of a question's line in bytes."""
MAX_SAMPLES = 64
"""Maximum number of branches that are played from one position."""
MAX_WAITING = 100
"""Maximum number of questions that wait for their turn."""
_Text = Annotated[str, Field(max_length=100_000)]


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: str = Field(min_length=1, max_length=64, description="Chosen by the asker; the answers carry it.")


class _Question(_Message):
    folder: str = Field("", max_length=4096, description="Folder of the attempt's run; empty: the run of the weights.")
    trajectory: str = Field(min_length=1, max_length=100, description="Id of the attempt in the journal.")
    temperature: float | None = Field(None, ge=0, le=10, description="null: as the attempt was sampled; 0: greedy.")


class Change(BaseModel):
    """What is changed at a position before the policy plays on."""

    model_config = ConfigDict(extra="forbid")

    state: _Text | None = Field(None, description="The message that the policy reads at the turn.")
    thought: _Text | None = Field(None, description="Its thought, after which it writes the answer.")
    answer: _Text | None = Field(
        None, description="Its answer, after the recorded or changed thought; it plays on at the next turn."
    )


class PlayOn(_Question):
    """Play on from a position."""

    do: Literal["branch"] = "branch"
    turn: int = Field(ge=0, lt=2**16, description="The position is before the response of this turn.")
    samples: int = Field(1, ge=1, le=MAX_SAMPLES)
    change: Change = Change()
    luck: Literal["recorded", "fresh"] = Field(
        "recorded",
        description="Randomness of the environment after the position: as in the recording, or new in every branch.",
    )


class FindValue(_Question):
    """Play on from every turn: the share of continuations that solve it."""

    do: Literal["value"] = "value"
    samples: int = Field(16, ge=1, le=MAX_SAMPLES)


class CompareThoughts(_Question):
    """Sample the next actions after other thoughts, at every turn."""

    do: Literal["thoughts"] = "thoughts"
    samples: int = Field(16, ge=1, le=MAX_SAMPLES)


class Cancel(_Message):
    """Stop the question of this id, or forget it if it waits."""

    do: Literal["cancel"] = "cancel"


Question = PlayOn | FindValue | CompareThoughts
Request: TypeAdapter[PlayOn | FindValue | CompareThoughts | Cancel] = TypeAdapter(
    Annotated[PlayOn | FindValue | CompareThoughts | Cancel, Field(discriminator="do")]
)


class Share(BaseModel):
    """How many of some samples were solved, with Wilson's 95 % interval of the share."""

    solved: int
    samples: int
    share: float
    low: float
    high: float


class Ready(BaseModel):
    """The weights are loaded."""

    type: Literal["ready"] = "ready"
    checkpoint: int = Field(description="Finished iterations of the weights; 0: the initial policy.")
    device: str


class Restored(BaseModel):
    """The first position of a question is known and will be restored."""

    type: Literal["restored"] = "restored"
    id: str
    turn: int
    tokens: Literal["recorded", "encoded"] = Field(
        description="recorded: the dialogue has the recorded token ids; encoded: ids of its recorded text."
    )
    beginning: str = Field(description="Beginning of the response that the policy continues; empty: none.")


class Partial(BaseModel):
    """A response of a branch so far; such lines may be left out."""

    type: Literal["partial"] = "partial"
    id: str
    branch: int
    turn: int
    text: str


class Played(BaseModel):
    """An event of a branch, as in the journal of a run: its new turns, its end, its tokens."""

    type: Literal["event"] = "event"
    id: str
    branch: int
    event: Annotated[Turn | TrajectoryFinished | TrajectoryTokens, Field(discriminator="type")]


class Advanced(BaseModel):
    """Progress of a question in samples."""

    type: Literal["progress"] = "progress"
    id: str
    done: int
    total: int


class Branches(BaseModel):
    """Result of playing on: the share solved of the branches whose environment did not fail."""

    type: Literal["branches"] = "branches"
    id: str = ""
    solved: Share
    failed: int = Field(description="Branches whose environment failed.")


class TurnValue(BaseModel):
    """Share solved from the position before a turn."""

    turn: int
    solved: Share
    fall: float = Field(description="Solved share at the turn minus the share at the next turn or at the outcome.")


class Values(BaseModel):
    """Result of the value by play."""

    type: Literal["values"] = "values"
    id: str = ""
    turns: list[TurnValue]
    outcome: bool | None = Field(description="Whether the attempt was solved; null: it has no end.")
    decisive: int | None = Field(description="Turn of the steepest fall; null: no turn lost anything.")


Thought = Literal["own", "none", "other", "false"]


class TurnInfluence(BaseModel):
    """Next actions at a turn, by thought, and how far they are from those after its own thought.

    Distances are total variation distances, from 0 (the same actions) to 1 (never the same).
    """

    turn: int
    actions: dict[Thought, dict[str, int]] = Field(description="Thought → actions of the turn → samples.")
    distances: dict[Thought, float] = Field(description="Thought → distance from the own thought.")
    influence: float | None = Field(description="Larger distance of no thought and another one's; null: neither.")
    follows_false_claims: float | None = Field(description="Distance of the thought with false claims; null: none.")
    other: str | None = Field(description="The other attempt's thought.")
    false: str | None = Field(description="The own thought with false claims.")
    claims: int = Field(description="Claims about the state in its own thought.")
    kept_claims: int = Field(description="Those that are still true in the thought with false claims.")


class Influences(BaseModel):
    """Result of the test of thoughts; means over the turns where they are known."""

    type: Literal["influences"] = "influences"
    id: str = ""
    turns: list[TurnInfluence]
    influence: float | None
    follows_false_claims: float | None


class Failed(BaseModel):
    """A question has no answer, or a line is no question."""

    type: Literal["error"] = "error"
    id: str = ""
    message: str


class Cancelled(BaseModel):
    """A question was cancelled."""

    type: Literal["cancelled"] = "cancelled"
    id: str


Answer = Ready | Restored | Partial | Played | Advanced | Branches | Values | Influences | Failed | Cancelled
END_TYPES = ("branches", "values", "influences", "error", "cancelled")
"""Types of the last answer to a question."""
