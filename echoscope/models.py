"""Typed responses of a site. Generated from its OpenAPI document: `python manage.py export_client_types`.

Enumerations are plain strings here, and unknown fields are kept, so that a client works with newer sites.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from echoscope.answer import ENDED as ENDED
from echoscope.answer import Answer as Answer
from echoscope.answer import RunAnswer


class Team(Answer):
    """A team, by its address and its name."""

    slug: str
    name: str


class Membership(Team):
    """A team of the caller, and the role in it."""

    role: str


class Me(Answer):
    """The authenticated caller."""

    username: str
    scopes: list[str]
    teams: list[Membership]


class AuditEntry(Answer):
    """An entry of the audit log."""

    at: datetime
    username: str
    """Name of the account at that time; empty: the site itself."""
    action: str
    subject: str
    """Describes the object."""
    path: str
    """Page of the object; may be empty."""
    address: str | None
    """Network address."""
    means: str
    """Browser or API token."""
    details: dict[str, Any]


class UpdateProgress(Answer):
    """Part of an update that is being computed."""

    stage: str
    """prepare, reference, old, values, diagnostics or step."""
    pass_number: int
    """Pass over the rollout, from 1; 0 before the first."""
    passes: int
    """Planned passes."""
    groups: list[int]
    """Groups with trajectories in the current micro-batch."""


class Phase(Answer):
    """Current phase of a run and its progress."""

    phase: str
    iteration: int
    """1-based; 0 before the first."""
    done: int
    total: int
    unit: str
    tokens_per_second: float | None
    eta_seconds: float | None
    """To the end of the run."""
    eta_low_seconds: float | None
    """The same at the pace of fast iterations."""
    eta_high_seconds: float | None
    """The same at the pace of slow iterations."""
    share: float | None
    """Completed share of the phase, 0 to 1."""
    iteration_shares: dict[str, float] | None
    """Phase → its expected share of this iteration's time, in order."""
    update: UpdateProgress | None
    """For the phase update."""


class Journal(Answer):
    """Progress of the site in reading a run's journal."""

    offset: int
    """Bytes read; the next piece begins here."""
    seq: int
    """Events read."""
    growing: bool
    """A run trained elsewhere whose sender announced more."""
    problem: str
    """Why reading stopped, and what to do; empty if all is well."""
    left_out: list[str]
    """Lines of this request in whose place there is a notice, and why."""


class ObservationImage(Answer):
    """An image that a policy saw, as turns refer to it."""

    sha256: str
    """Of the file, in hexadecimal digits."""
    media_type: str
    """image/png, image/jpeg or image/webp."""
    width: int
    """Pixels."""
    height: int
    """Pixels."""
    bytes: int
    """Of the file."""


class Run(RunAnswer):
    """A run, without its configuration."""

    slug: str
    url: str
    """Its page."""
    title: str
    team: Team | None
    """Null for readers outside the team."""
    author: str | None
    """User name. Null for readers outside the team."""
    environment: str
    preset: str
    tags: list[str]
    group: str = ""
    """Group of runs that it belongs to; empty for none."""
    notes: str
    """What the team wrote about the run, in Markdown."""
    archived_at: datetime | None
    """Since when lists leave it out; null if they show it."""
    visibility: str
    state: str
    requested: str
    """Request that the worker has not applied yet."""
    condition: Condition | None = None
    """Its worst trouble; null for none, or none known."""
    imported: bool
    """Trained elsewhere; its journal was sent or imported."""
    iterations: int
    """Planned."""
    iteration: int
    """Finished."""
    attempt: int
    phase: Phase | None
    queue: str = "training"
    """Requested device class; “training” = any."""
    priority: str = "normal"
    gpus: int = 0
    """GPUs requested on one worker."""
    device: str
    parameters: int
    """Parameters of the policy."""
    failure: str
    """Why it failed."""
    summary: dict[str, float]
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class Waiting(Answer):
    """Position of a run in the queue of its device class."""

    position: int
    """1-based."""
    message: str
    """Why it waits."""
    possible: bool
    """Whether a worker that is online now could take it."""


class RunDetail(Run):
    """A run with its complete configuration."""

    config: dict[str, Any]
    """The complete RunConfig."""
    waiting: Waiting | None = None
    """Null unless it waits for a worker."""
    journal: Journal


class SettingsChange(Answer):
    """A change of settings while a run trains, or a rewind, as planned in its settings or requested."""

    request: str
    """Its identity in the journal; “planned@ITERATION” if planned."""
    changes: dict[str, str]
    """Dotted name of a setting → its new value."""
    by: str
    """Who requested it; empty: planned."""
    why: str
    iteration: int | None
    """The first iteration with the new values; null: the trainer is asked."""
    rewind_to: int | None
    """The checkpoint to which the run goes back; null: it goes on."""
    rewind_from: int | None
    """Iterations that were finished before the rewind; null before it."""
    refused: str
    """Why the trainer changed nothing; empty: it did, or has not answered."""
    time: datetime
    """Time of the request, then of the trainer's answer."""


class Group(Answer):
    """Runs launched as a group."""

    group: str
    """Its name."""
    url: str
    """The list of its runs."""
    compare_url: str
    """Their comparison."""
    runs: list[Run]


class Metric(Answer):
    """A metric of a run, with its newest value."""

    name: str
    title: str
    section: str
    unit: str
    meaning: str
    points: int
    last_iteration: int
    last: float


class Point(Answer):
    """Consecutive iterations of a metric; a single iteration if the range has at most `buckets` of them."""

    first_iteration: int
    last_iteration: int
    min: float
    max: float
    last: float
    """Value at last_iteration."""
    tokens: int
    """Tokens sampled for training so far."""
    seconds: float
    """Working time so far."""


class Alarm(Answer):
    """A change of state of the Echo Trap detector."""

    seq: int
    iteration: int
    state: str
    message: str
    evidence: dict[str, Any]
    time: datetime


class Condition(Answer):
    """Trouble of a run: of its policy, as the Echo Trap detector names it, or of what it is trained with."""

    state: str
    """sick: a fault of its environments, weights, numbers, texts or machine."""
    since: int
    """Iteration of the alarm that stands, or in which the first fault began."""


class Checkpoint(Answer):
    """A checkpoint that is still stored."""

    iteration: int
    path: str
    """Relative to the run's folder."""
    bytes: int
    time: datetime


class Evaluation(Answer):
    """Success on the fixed puzzles of a suite. Iteration 0 = before training."""

    iteration: int
    suite: str
    prompts: int
    samples: int
    success: float
    success_low: float
    """95% interval."""
    success_high: float
    pass_at: dict[str, float]
    """k → pass@k."""
    mean_reward: float | None
    """null: not known, in runs of other trainers."""
    mean_turns: float | None
    """Likewise."""
    mean_actions: float | None
    """Likewise."""
    final: bool
    time: datetime


class EvaluatedPolicy(Answer):
    """A row of a generalization matrix."""

    name: str
    source: str
    """Folder, hub id or run that it was read from."""
    trained_on: str | None
    """Its environments, joined by “ + ”; null if unknown."""


class GeneralizationCell(Answer):
    """Result of one policy in one suite."""

    policy: str
    suite: str
    prompts: int
    samples: int
    success: float
    success_low: float
    """95% interval."""
    success_high: float
    mean_reward: float


class Generalization(Answer):
    """Generalization matrix: several policies evaluated in the same suites."""

    suites: list[str]
    policies: list[EvaluatedPolicy]
    cells: list[GeneralizationCell]
    time: datetime


class ComparedRun(Answer):
    """A compared run with its latest results."""

    letter: str
    """Its name in the comparison."""
    slug: str
    url: str
    title: str
    environment: str
    algorithm: str
    """In words."""
    state: str
    iteration: int
    tokens: float | None
    """Sampled tokens so far."""
    seconds: float | None
    """Training time so far."""
    evaluation: Evaluation | None
    """Its newest one, if any of its own environment."""


class Difference(Answer):
    """A setting that differs between the runs."""

    name: str
    """Dotted name."""
    label: str
    section: str
    unit: str
    values: list[str]
    """In the order of the runs."""


class Comparison(Answer):
    """Runs side by side."""

    url: str
    """Page of the comparison."""
    runs: list[ComparedRun]
    differences: list[Difference]
    suites: list[str]
    """Suites in which at least one was evaluated, the most shared one first."""
    warning: str
    """Why the results are not comparable yet; empty if they are."""


class Attempt(Answer):
    """A run's attempt at a puzzle."""

    run: str
    """Slug."""
    trajectory: str | None
    """Slug; null if the run did not play this puzzle from the same start."""
    success: bool | None
    total_reward: float | None


class Puzzle(Answer):
    """A puzzle of a suite, as each run played it in its newest evaluation."""

    suite: str
    number: int
    """From 0; the last one if a later one was asked for."""
    count: int
    """Number of puzzles in the suite."""
    seed: int
    attempts: list[Attempt]


class LostAt(Answer):
    """The first action after which success was out of reach."""

    turn: int
    """0-based."""
    action: int
    """0-based, within the turn."""
    reason: str


class Trajectory(Answer):
    """One episode, without its turns."""

    slug: str
    url: str
    """Its page, with the player."""
    run: str
    """Slug."""
    key: str
    """Its id in the journal."""
    iteration: int
    split: str
    suite: str
    """Evaluation suite; empty for training."""
    environment: str
    group: int
    """0-based within iteration, split and suite; of a branch: of its question."""
    member: int
    """0-based within the group."""
    status: str
    end: str
    """Why it ended: terminated, turns, actions, truncated, interrupted; empty before."""
    end_reason: str = ""
    """How it ended, as a code: solved, why it was lost (box_corner, …), what ran out; empty before."""
    total_reward: float | None
    """null: none was recorded."""
    turns: int
    actions: int
    """Executed actions."""
    tokens: int | None
    """Sampled tokens; null: not known, in runs of other trainers."""
    format_error: bool | None
    """At least one turn broke the format; null: not judged, in runs of other trainers."""
    true_claims: int | None
    """Statements of its thoughts that hold; null where thoughts were not compared with the state."""
    false_claims: int | None
    """Statements of its thoughts that do not hold; null likewise."""
    false_claim_kinds: list[str] = []
    """What its false claims are about (docs/claims.md), sorted."""
    worst_mark: str | None = None
    """Its worst mark; `unknown` where no solver judges it, null until it has been judged after its end."""
    first_mistake_turn: int | None = None
    """Turn of its first mistake or blunder, 0-based; null where there is none."""
    commentary: str = ""
    """A comment of a sentence on its play; empty until it has been judged."""
    kept: bool | None
    """Whether the update used its group; null until that is decided."""
    training_use: str = ""
    """`trained` if the update learnt from it, else the code of the reason why not (docs/explorer.md); empty until that
    is decided, and for evaluations.
    """
    mismatch: float | None = None
    """Mean absolute difference of trainer's and sampler's log-probabilities, nats; null where unknown."""
    lost_at: LostAt | None
    error: str


class Mark(Answer):
    """A mistake, judged by the environment's solver (docs/player.md)."""

    turn: int
    """0-based."""
    action: int
    """0-based, within the turn."""
    kind: str
    glyph: str
    played: str
    """The action."""
    better: list[str]
    """The best actions instead, best first."""
    value: float
    """Value of best play before it, 0 to 1: a chance of success under random dynamics."""
    kept: float
    """Value that the action left; under random dynamics its expectation."""
    loss: float
    """`value` − `kept`."""
    sentence: str
    cells: list[list[int]]
    """Row and column, 0-based, of the box or player that it is about."""
    origin: list[int]
    """Row and column of the player before it; empty without a grid."""
    dead_end: bool
    """Success was impossible after it."""


class Verdict(Answer):
    """The reason why a failed attempt was not solved, and the position that shows it."""

    kind: str
    """A mistake, bad luck after a good action, or turns and actions ran out."""
    turn: int
    """0-based."""
    action: int
    """0-based, within the turn; -1: its start."""
    sentence: str


class TrajectoryDetail(Answer):
    """One episode with its prompt, its first board and its turns."""

    trajectory: Trajectory
    seed: int
    prompt: str
    """The task, before the first state."""
    board: dict[str, Any]
    """Before the first turn."""
    hint: dict[str, Any] | None
    """Solver advice before the first turn."""
    turns: list[dict[str, Any]]
    """The journal's turn events (docs/journal.md), in order."""
    marks: list[Mark] = []
    """Its mistakes in order; empty where the environment has no solver."""
    verdict: Verdict | None = None
    """Of a failed attempt; null otherwise, and where the solver is silent."""
    recorded: bool = False
    """Of a run of another trainer: its responses have no format of Echoscope's."""
    question: str | None = None
    """Of a branch: slug of the question that it answers (docs/branching.md); null of others."""


class Change(Answer):
    """What is changed at a position before the policy plays on."""

    state: str | None
    """The message that the policy reads at the turn."""
    thought: str | None
    """Its thought, after which it writes the answer."""
    answer: str | None
    """Its answer, after the recorded or changed thought; it plays on at the next turn."""


class SolvedShare(Answer):
    """How many of some samples were solved, with Wilson's 95 % interval of the share."""

    solved: int
    samples: int
    share: float
    low: float
    high: float


class Branches(Answer):
    """Result of playing on: the share solved of the branches whose environment did not fail."""

    type: str
    id: str
    solved: SolvedShare
    failed: int
    """Branches whose environment failed."""


class TurnValue(Answer):
    """Share solved from the position before a turn."""

    turn: int
    solved: SolvedShare
    fall: float
    """Solved share at the turn minus the share at the next turn or at the outcome."""


class Values(Answer):
    """Result of the value by play."""

    type: str
    id: str
    turns: list[TurnValue]
    outcome: bool | None
    """Whether the attempt was solved; null: it has no end."""
    decisive: int | None
    """Turn of the steepest fall; null: no turn lost anything."""


class TurnInfluence(Answer):
    """Next actions at a turn, by thought, and how far they are from those after its own thought. Distances are total
    variation distances, from 0 (the same actions) to 1 (never the same).
    """

    turn: int
    actions: dict[str, dict[str, int]]
    """Thought → actions of the turn → samples."""
    distances: dict[str, float]
    """Thought → distance from the own thought."""
    influence: float | None
    """Larger distance of no thought and another one's; null: neither."""
    follows_false_claims: float | None
    """Distance of the thought with false claims; null: none."""
    other: str | None
    """The other attempt's thought."""
    false: str | None
    """The own thought with false claims."""
    claims: int
    """Claims about the state in its own thought."""
    kept_claims: int
    """Those that are still true in the thought with false claims."""


class Influences(Answer):
    """Result of the test of thoughts; means over the turns where they are known."""

    type: str
    id: str
    turns: list[TurnInfluence]
    influence: float | None
    follows_false_claims: float | None


class BranchTurn(Answer):
    """A turn that a policy played on, in short; the whole turn is part of the branch's trajectory."""

    turn: int
    """0-based."""
    thought: str
    answer: str
    actions: list[str]
    """Names of its actions; of an illegal one, the text."""
    problem: str | None
    """Why its format is not valid; null: it is."""


class Branch(Answer):
    """A branch: a trajectory that begins with the recorded turns. All operations on one trajectory take its slug."""

    number: int
    """0-based."""
    slug: str
    url: str
    """Its page, with the player."""
    status: str
    end: str
    """Why it ended: terminated, turns, actions, truncated, interrupted; empty before."""
    end_reason: str
    """How it ended, as a code; empty before."""
    total_reward: float | None
    """With the recorded turns; null: none was recorded."""
    turns: int
    """With the recorded ones."""
    new_turns: list[BranchTurn]
    """From the position on; very long ones are left out."""
    error: str


class Question(Answer):
    """A question to a policy about a recorded trajectory, and its answer once there is one."""

    slug: str
    url: str
    """Page of the trajectory, at the turn."""
    trajectory: str
    """Slug."""
    kind: str
    turn: int | None
    """Of `branch`: the position is before this turn's response, 0-based."""
    samples: int
    temperature: float | None
    """null: as the trajectory was sampled."""
    change: Change
    fresh_luck: bool
    weights_run: str | None
    """Slug of the run of the weights; null: the trajectory's run, or you are outside its team."""
    checkpoint: int | None
    """Finished iterations of the wanted weights; null: as asked by default."""
    author: str | None
    """Username; null outside the team."""
    state: str
    message: str
    """What it waits for, its progress, which weights answered, or why it failed."""
    done: int
    """Finished samples."""
    total: int
    """Planned samples."""
    used_checkpoint: int | None
    """Finished iterations of the weights that answer."""
    encoded: bool | None
    """Whether the dialogue's token ids come from its recorded text."""
    result: Branches | Values | Influences | None
    """Answer by kind; null until there is one."""
    requested_at: datetime
    answered_at: datetime | None


class QuestionDetail(Question):
    """A question with its branches."""

    branches: list[Branch]
    """Of `branch`, by number, also while they are played."""


class Interval(Answer):
    """A number with its 95 % interval, in which the attempts at one puzzle count as dependent."""

    value: float
    low: float
    high: float


class CorrectedAttempt(Answer):
    """A lost attempt, its first thought with a false position put right, and the continuations from there."""

    trajectory: str
    turn: int
    claims: list[str]
    """Words of the false claims that were put right."""
    corrections: list[str]
    """The same words with the true positions."""
    thought: str
    """The whole corrected thought."""
    solved: int
    """Continuations after the corrected thought that were solved."""
    samples: int
    """Continuations after it whose environment did not fail."""
    solved_without: int
    """Continuations after its own thought that were solved."""
    samples_without: int


class Corrections(Answer):
    """Result of correcting what lost attempts misread. Shares are of continuations."""

    type: str
    id: str
    iteration: int
    suite: str
    attempts: int
    """Attempts of the evaluation that have ended."""
    lost: int
    """Attempts that were lost."""
    correctable: int
    """Lost attempts with a false position that can be put right."""
    rows: list[CorrectedAttempt]
    """The lost attempts that were played on from."""
    solved: SolvedShare
    """With the correction; the interval has puzzles as clusters."""
    solved_without: SolvedShare
    difference: Interval | None
    """Share solved with the correction minus without; null: no row."""


class AttemptInfluence(Answer):
    """Influence of an attempt's thoughts: means over its turns where they are known."""

    trajectory: str
    turns: int
    """Turns that have an answer behind a thought."""
    influence: float | None
    follows_false_claims: float | None


class Survey(Answer):
    """Result of the test of thoughts over an evaluation: means over attempts, with puzzles as clusters."""

    type: str
    id: str
    iteration: int
    suite: str
    attempts: int
    """Attempts of the evaluation that have ended."""
    rows: list[AttemptInfluence]
    """The attempts that were asked about."""
    influence: Interval | None
    """null: it is known of no attempt."""
    follows_false_claims: Interval | None


class EvaluationQuestion(Answer):
    """A question to a policy about an evaluation, and its answer once there is one."""

    slug: str
    url: str
    """The evaluation tab of the run."""
    run: str
    """Slug."""
    kind: str
    suite: str
    iteration: int
    """Finished iterations at the evaluation."""
    samples: int
    attempts: int
    """Maximum number of attempts that are played on from."""
    author: str | None
    """Username; null outside the team."""
    state: str
    message: str
    """What it waits for, its progress, which weights answered, or why it failed."""
    done: int
    """Finished continuations; of `thoughts`, finished turns."""
    total: int
    """Planned ones; 0: not known yet."""
    used_checkpoint: int | None
    """Finished iterations of the weights that answer."""
    encoded: bool | None
    """Whether the dialogue's token ids come from its recorded text."""
    result: Corrections | Survey | None
    """Answer by kind; null until there is one."""
    requested_at: datetime
    answered_at: datetime | None


class TokenSegment(Answer):
    """Adjacent tokens of one kind."""

    kind: str
    turn: int
    """0-based."""
    start: int
    """Position of its first token, 0-based."""
    tokens: int
    sampled: bool
    in_loss: bool
    restarts: bool
    """The policy read it as the beginning of another context."""


class TokenState(Answer):
    """Whether a trajectory has tokens, or a worker computes them from a checkpoint (docs/player.md)."""

    state: str
    message: str
    """Why there are none, or what the worker does; of computed ones, what they are."""
    computed_from: int | None
    """Finished iterations of the weights with which they were computed; null: they were not computed."""
    sampled_after: int
    """Finished iterations of the weights that sampled the trajectory."""


class TrajectoryTokens(TokenState):
    """All tokens of a trajectory in reading order, in parallel lists; numbers are null where unknown."""

    segments: list[TokenSegment]
    texts: list[str]
    ids: list[int]
    logprobs: list[float | None] | None
    """Sampler's log-probability, nats; if computed, of the weights above."""
    entropies: list[float | None] | None
    """Entropy of the same distribution, nats."""
    differences: list[float | None] | None
    """Trainer's minus sampler's log-probability, nats."""
    ratios: list[float | None] | None
    """Importance ratio in the last optimiser step."""
    advantages: list[float | None] | None
    clipped: list[int] | None
    """Positions whose gradient a bound cut off; null: not known."""
    retokenised: list[int] | None
    """Positions at which the text has another token when it is encoded again; null if computed."""


class Comment(Answer):
    """A comment on a trajectory, or on one of its turns."""

    slug: str
    url: str
    trajectory: str
    """Slug."""
    author: str | None
    turn: int | None
    """0-based; null: the whole trajectory."""
    text: str
    """Plain text; @name mentions a member of the team."""
    mentions: list[str]
    """Usernames of the members that it mentions."""
    created_at: datetime
    edited_at: datetime | None


class Annotations(Answer):
    """A team's annotations of a trajectory."""

    trajectory: str
    """Slug."""
    starred: bool
    """Whether the caller has starred it."""
    stars: list[str]
    """Usernames of those who starred it, the first one first."""
    tags: list[str]
    comments: list[Comment]
    """Oldest first."""


class Share(Answer):
    """A share link: anyone who has it can see its trajectory."""

    token: str
    url: str
    trajectory: str
    """Slug."""
    author: str | None
    turn: int | None
    """0-based: where the player opens."""
    action: int | None
    indexable: bool
    """Whether search engines may index it."""
    views: int
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class AlertRule(Answer):
    """An alert rule: events of runs that a team is alerted to."""

    slug: str
    team: Team
    author: str | None
    name: str
    events: list[str]
    scope: str
    scope_value: str
    """Environment, tag or slug of the run; empty for other scopes."""
    suite: str
    """Evaluation suite; empty = all."""
    threshold: float
    """Success rate, 0 to 1."""
    queued_minutes: int
    stalled_minutes: int
    pauses: bool = False
    """Whether a run that is sick or trapped is also paused."""
    channel: str
    target: str
    """In words, without the path of an address, which often is a secret."""
    enabled: bool
    disabled_reason: str
    """Why it was switched off automatically; empty otherwise."""
    created_at: datetime


class AlertRuleDetail(AlertRule):
    """An alert rule with the state of its addresses."""

    unconfirmed: list[str]
    """E-mail addresses whose owners have not permitted alerts yet."""
    problem: str
    """Why a confirmation link was not sent; empty if all were."""
    secret: str | None
    """Signing key of a webhook; only in the answer that makes it."""
    former_secrets_until: datetime | None
    """Until when a replaced secret also signs; null if none does."""


class Delivery(Answer):
    """An alert: one event of one rule."""

    slug: str
    run: str | None
    """Slug; null for a test."""
    event: str
    """An event of the rule, or “test”."""
    state: str
    tries: int
    payload: dict[str, Any]
    """As it is sent (docs/alerts.md)."""
    created_at: datetime
    ended_at: datetime | None


class Report(Answer):
    """A report, without its text."""

    slug: str
    url: str
    title: str
    team: Team | None
    """Null outside the team."""
    author: str | None
    visibility: str
    """“public”: as “link”, and search engines may index it."""
    version: int
    """Number of its newest version, from 1."""
    created_at: datetime
    edited_at: datetime


class ReportDetail(Report):
    """A report with its text."""

    body: str
    """Markdown; a line that holds only an address of this site is an embed."""


class StudyRun(Answer):
    """A run of a study. What a reader may not open has no slug."""

    slug: str | None
    seed: int
    state: str
    iteration: int
    iterations: int
    success: float | None
    """Of its last evaluation on its own environment, 0 to 1."""


class StudyArm(Answer):
    """An arm of a study in one environment; a trial of a search."""

    name: str
    title: str
    environment: str
    changes: dict[str, Any]
    """Dotted setting → value, where the arms of a grid or a search differ."""
    success: float | None
    """Mean over runs of their last evaluation, 0 to 1."""
    deviation: float | None
    """Its standard deviation over runs; null for fewer than two."""
    value: float | None
    """Mean over runs of the study's metric at their present ends."""
    complete: int
    """Runs that ended as planned."""
    stopped: str
    """Why it was stopped early; empty if it was not."""
    runs: list[StudyRun]


class StudyVerdict(Answer):
    """Verdict on a claim of a study, from its complete runs."""

    claim: str
    environment: str
    verdict: str
    """yes, no, the opposite, or inconclusive."""
    firm: bool
    """Whether all planned seeds are complete; until then the verdict is provisional."""
    figures: str
    p: float | None
    """Two-sided p value; null where nothing could be tested."""
    corrected: float | None
    """After Holm's correction for all tested claims of the study."""
    complete: int
    """Complete seeds of the arm that has fewer of them."""
    planned: int


class Reported(Answer):
    """A figure of the paper."""

    what: str
    value: str
    environment: str
    arm: str


class Study(Answer):
    """A study, without its results."""

    slug: str
    url: str
    title: str
    """Also the group of its runs."""
    team: Team | None
    """Null outside the team."""
    author: str | None
    kind: str
    state: str
    visibility: str
    runs: dict[str, int]
    """State → number of runs."""
    problem: str
    """Why it launches no further trials, and what to do; empty if all is well."""
    created_at: datetime
    ended_at: datetime | None


class StudyDetail(Study):
    """A study with its plan and its results so far."""

    plan: dict[str, Any]
    """What it tries, as at its launch; without shared settings for readers outside of the team."""
    metric: str
    """Metric by which trials are chosen and arms are stopped early."""
    arms: list[StudyArm]
    verdicts: list[StudyVerdict]
    paper: list[Reported]


class StudyControlled(Answer):
    """Effects of a request."""

    changed: int
    """Runs that follow it."""
    refusals: list[str]
    """Reasons of runs that do not."""
    study: Study


class Environment(Answer):
    """An environment."""

    name: str
    title: str
    summary: str


class EnvironmentDetail(Environment):
    """An environment with its rules and its settings."""

    spec: dict[str, Any]
    """Rules, symbols, actions and budgets."""
    settings_schema: dict[str, Any]
    """JSON Schema of its settings."""
    variants: dict[str, str] = {}
    """Of an adapter: variants by id, with a few words about each."""


class Preset(Answer):
    """A shipped preset."""

    name: str
    environment: str
    title: str
    algorithm: str
    size: str
    """In words."""


class PresetDetail(Preset):
    """A shipped preset with its configuration."""

    config: dict[str, Any]


class ModelFit(Answer):
    """Fit of a run with a model on a worker."""

    worker: str
    verdict: str
    """fits; lora: with adapters; gpu: a GPU is needed; large: more memory is needed; unknown."""
    needed: int | None
    """Estimated memory in bytes."""
    available: int | None
    """Memory of the worker's machine or largest GPU in bytes."""


class ModelStore(Answer):
    """A models folder, which its workers share, and the state of a model in it."""

    workers: list[str]
    """Live workers with this folder."""
    state: str
    """absent, queued, downloading, installed, failed or deleting."""
    stage: str
    """Of a download: download, convert or check."""
    done_bytes: int
    total_bytes: int
    """0 if unknown."""
    bytes: int
    """Size of the installed folder."""
    error: str
    """Why the last download or deletion failed."""


class LanguageModel(Answer):
    """A model that runs can start from by its name."""

    name: str
    """For policy.model."""
    label: str
    parameters: int
    """0 if unknown."""
    licence: str
    licence_url: str
    gated: bool
    """Whether its licence must be accepted on the Hub before the download."""
    thinking: bool | None
    """Whether it thinks before it answers by itself; null if unknown."""
    learns: str
    """What it can be expected to learn."""
    download_bytes: list[int]
    """Size of the download from each source."""
    catalogue: bool
    """Whether it is in the catalogue, so that it can be downloaded here."""
    installed: bool
    """Whether a live worker has it."""
    stores: list[ModelStore]
    fits: list[ModelFit]
    """For each live worker, if a preset is given."""


class Gpu(Answer):
    """A GPU of a worker."""

    id: str
    """Its index on the worker's machine."""
    name: str
    total: int | None
    """Memory in bytes; null if unknown."""
    free: int | None
    runs: list[str]
    """Slugs of the runs it is reserved for, as far as you may see them."""


class ClusterNode(Answer):
    """A node of a Ray cluster, in Ray's units."""

    id: str
    name: str
    cpus: float
    cpus_free: float
    gpus: float
    gpus_free: float


class Cluster(Answer):
    """The Ray cluster that a worker represents."""

    problem: str
    """Why it takes no run at present; empty if it does."""
    nodes: list[ClusterNode]


class Worker(Answer):
    """A worker: its devices, its queues and the runs it trains."""

    name: str
    device: str
    device_class: str = ""
    """cpu, gpu, or the operator's name for it."""
    queues: list[str]
    """Device classes it serves."""
    gpus: list[Gpu] = []
    cluster: Cluster | None = None
    """Ray cluster that it stands for; null without one."""
    slots: int
    alive: bool
    stopping: bool
    started_at: datetime
    last_seen_at: datetime
    runs: list[str]
    """Slugs of the runs it trains, as far as you may see them."""
