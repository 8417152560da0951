"""Questions to a sampler process about recorded attempts and evaluations, and its answers: JSON lines.

docs/branching.md describes them. Turns are counted from 0, as in the journal. Imports no torch: sites write the
questions, and trust no answer.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter

from trainer.journal.events import TrajectoryFinished, TrajectoryTokens, Turn

MAX_LINE = 1 << 20
"""Maximum length of a question's line in bytes."""
MAX_SAMPLES = 64
"""Maximum number of branches that are played from one position."""
MAX_WAITING = 100
"""Maximum number of questions that wait for their turn."""
MAX_ATTEMPTS = 1000
"""Maximum number of attempts of an evaluation that one question is about."""
_Text = Annotated[str, Field(max_length=100_000)]


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: str = Field(min_length=1, max_length=64, description="Chosen by the asker; the answers carry it.")


class _Question(_Message):
    folder: str = Field("", max_length=4096, description="Folder of the attempt's run; empty: the run of the weights.")
    temperature: float | None = Field(None, ge=0, le=10, description="null: as the attempt was sampled; 0: greedy.")


class _AttemptQuestion(_Question):
    trajectory: str = Field(min_length=1, max_length=100, description="Id of the attempt in the journal.")


class _EvaluationQuestion(_Question):
    iteration: int | None = Field(None, ge=-(2**31), lt=2**31, description="Of the evaluation; null: the newest one.")
    suite: str | None = Field(None, max_length=1000, description="Its suite; null: the run's own environment.")
    attempts: int = Field(100, ge=1, le=MAX_ATTEMPTS, description="Of more attempts, so many are drawn.")


class Change(BaseModel):
    """What is changed at a position before the policy plays on."""

    model_config = ConfigDict(extra="forbid")

    state: _Text | None = Field(None, description="The message that the policy reads at the turn.")
    thought: _Text | None = Field(None, description="Its thought, after which it writes the answer.")
    answer: _Text | None = Field(
        None, description="Its answer, after the recorded or changed thought; it plays on at the next turn."
    )


class PlayOn(_AttemptQuestion):
    """Play on from a position."""

    do: Literal["branch"] = "branch"
    turn: int = Field(ge=0, lt=2**16, description="The position is before the response of this turn.")
    samples: int = Field(1, ge=1, le=MAX_SAMPLES)
    change: Change = Change()
    luck: Literal["recorded", "fresh"] = Field(
        "recorded",
        description="Randomness of the environment after the position: as in the recording, or new in every branch.",
    )


class FindValue(_AttemptQuestion):
    """Play on from every turn: the share of continuations that solve it."""

    do: Literal["value"] = "value"
    samples: int = Field(16, ge=1, le=MAX_SAMPLES)


class CompareThoughts(_AttemptQuestion):
    """Sample the next actions after other thoughts, at every turn."""

    do: Literal["thoughts"] = "thoughts"
    samples: int = Field(16, ge=1, le=MAX_SAMPLES)


class CorrectMisreadings(_EvaluationQuestion):
    """Play on from lost attempts of an evaluation with their first false position put right, and without."""

    do: Literal["corrections"] = "corrections"
    samples: int = Field(4, ge=1, le=MAX_SAMPLES, description="Continuations of each kind for every attempt.")


class SurveyThoughts(_EvaluationQuestion):
    """Sample the next actions after other thoughts at every turn of the attempts of an evaluation."""

    do: Literal["survey"] = "survey"
    samples: int = Field(8, ge=1, le=MAX_SAMPLES)


class Cancel(_Message):
    """Stop the question of this id, or forget it if it waits."""

    do: Literal["cancel"] = "cancel"


AttemptQuestion = PlayOn | FindValue | CompareThoughts
EvaluationQuestion = CorrectMisreadings | SurveyThoughts
Question = AttemptQuestion | EvaluationQuestion
Request: TypeAdapter[Question | Cancel] = TypeAdapter(Annotated[Question | Cancel, Field(discriminator="do")])


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


class Interval(BaseModel):
    """A number with its 95 % interval, in which the attempts at one puzzle count as dependent."""

    value: FiniteFloat
    low: FiniteFloat
    high: FiniteFloat


class CorrectedAttempt(BaseModel):
    """A lost attempt, its first thought with a false position put right, and the continuations from there."""

    trajectory: str
    turn: int
    claims: list[str] = Field(description="Words of the false claims that were put right.")
    corrections: list[str] = Field(description="The same words with the true positions.")
    thought: str = Field(description="The whole corrected thought.")
    solved: int = Field(description="Continuations after the corrected thought that were solved.")
    samples: int = Field(description="Continuations after it whose environment did not fail.")
    solved_without: int = Field(description="Continuations after its own thought that were solved.")
    samples_without: int


class Corrections(BaseModel):
    """Result of correcting what lost attempts misread. Shares are of continuations."""

    type: Literal["corrections"] = "corrections"
    id: str = ""
    iteration: int
    suite: str
    attempts: int = Field(description="Attempts of the evaluation that have ended.")
    lost: int = Field(description="Attempts that were lost.")
    correctable: int = Field(description="Lost attempts with a false position that can be put right.")
    rows: list[CorrectedAttempt] = Field(
        max_length=MAX_ATTEMPTS, description="The lost attempts that were played on from."
    )
    solved: Share = Field(description="With the correction; the interval has puzzles as clusters.")
    solved_without: Share
    difference: Interval | None = Field(description="Share solved with the correction minus without; null: no row.")


class AttemptInfluence(BaseModel):
    """Influence of an attempt's thoughts: means over its turns where they are known."""

    trajectory: str
    turns: int = Field(description="Turns that have an answer behind a thought.")
    influence: float | None
    follows_false_claims: float | None


class Survey(BaseModel):
    """Result of the test of thoughts over an evaluation: means over attempts, with puzzles as clusters."""

    type: Literal["survey"] = "survey"
    id: str = ""
    iteration: int
    suite: str
    attempts: int = Field(description="Attempts of the evaluation that have ended.")
    rows: list[AttemptInfluence] = Field(max_length=MAX_ATTEMPTS, description="The attempts that were asked about.")
    influence: Interval | None = Field(description="null: it is known of no attempt.")
    follows_false_claims: Interval | None


class Failed(BaseModel):
    """A question has no answer, or a line is no question."""

    type: Literal["error"] = "error"
    id: str = ""
    message: str


class Cancelled(BaseModel):
    """A question was cancelled."""

    type: Literal["cancelled"] = "cancelled"
    id: str


AttemptResult = Branches | Values | Influences
EvaluationResult = Corrections | Survey
Result = AttemptResult | EvaluationResult
Answer = Ready | Restored | Partial | Played | Advanced | Result | Failed | Cancelled
END_TYPES = ("branches", "values", "influences", "corrections", "survey", "error", "cancelled")
"""Types of the last answer to a question."""
