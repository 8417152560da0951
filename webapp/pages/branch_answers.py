"""Rows of the questions about an attempt: what was asked, how far the answer is, and the branches as a small tree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

from django.db.models import Count, F, Func, JSONField, Q, Value
from pydantic import ValidationError

from trainer.journal.branches import Branches, Influences, Share, Values
from trainer.metrics.success_difference import Rate, wilson
from webapp.branching.asked import NEWEST, wanted_weights
from webapp.branching.models import BranchQuestion
from webapp.branching.policies import hosted_model
from webapp.explorer.rows import outcome
from webapp.pages.branch_charts import InfluenceTable, ValueCurve, influence_table, value_curve
from webapp.runs import worker_requests
from webapp.trajectories.branch_origin import CHANGED
from webapp.trajectories.computed_text import weights_name
from webapp.trajectories.models import BRANCH, Trajectory, Turn

Kind, State = BranchQuestion.Kind, BranchQuestion.State
MAX_BRANCHES = 1_000
"""Branches on one page; of older questions only the first one has a link."""
MAX_ROWS = 10
"""Different next actions of a question that are shown unfolded."""
MAX_WRITTEN = 3
"""Responses being written that are shown, with the last MAX_TAIL characters of each."""
MAX_TAIL = 280
MAX_ACTIONS = 60
MAX_BESIDE = 5
UNREADABLE = "The answer of the worker cannot be read."


@dataclass(frozen=True)
class BranchChip:
    """Link to a branch. `number` is counted from 1, `questions` are about the branch."""

    slug: str
    number: int
    sign: str
    tone: str
    label: str
    questions: int = 0


@dataclass
class NextActions:
    """The branches with the same next actions."""

    text: str
    chips: list[BranchChip] = field(default_factory=list)

    @property
    def solved(self) -> int:
        return sum(chip.tone == "good" for chip in self.chips)


@dataclass(frozen=True)
class Beside:
    """Link to the first branch next to another attempt, which began the same way."""

    slug: str
    label: str


@dataclass(frozen=True)
class Written:
    """A response that is being written."""

    label: str
    text: str


@dataclass(frozen=True)
class QuestionRow:
    """A question with its state and answer."""

    question: BranchQuestion
    weights: str
    temperature: str
    changed: str
    change: str
    author: str
    status: str
    headline: str = ""
    interval: str = ""
    problem: str = ""
    next_actions: Sequence[NextActions] = ()
    folded: Sequence[NextActions] = ()
    first: str = ""
    baseline: str = ""
    wants_baseline: bool = False
    beside: Sequence[Beside] = ()
    written: Sequence[Written] = ()
    curve: ValueCurve | None = None
    influences: InfluenceTable | None = None

    @property
    def turn(self) -> int | None:
        """Turn of its position, counted from 1; None for questions about all turns."""
        return None if self.question.turn is None else self.question.turn + 1

    @property
    def questions_below(self) -> bool:
        """Whether there are questions about its branches, which are deleted with it."""
        return any(chip.questions for row in (*self.next_actions, *self.folded) for chip in row.chips)

    @property
    def folded_count(self) -> int:
        return sum(len(actions.chips) for actions in self.folded)

    @property
    def announcement(self) -> str:
        """What screen readers are informed of: the state without progress, which changes every second."""
        where = f"Turn {self.turn}: " if self.turn else f"{self.question.get_kind_display()}: "
        running = "a worker plays on." if self.question.state == State.RUNNING else self.status
        return where + (self.headline or self.problem or running)

    @property
    def shown(self) -> str:
        """Identify what is shown: an open page asks for something else."""
        chips = [(chip.number, chip.sign) for row in (*self.next_actions, *self.folded) for chip in row.chips]
        texts = [(written.label, written.text) for written in self.written]
        state = (self.question.state, self.question.done, self.question.total, self.status, self.problem)
        return str(crc32(repr((state, chips, texts)).encode(errors="replace")))


class _Paths(Func):
    """Values of a JSON path, as an array."""

    function = "jsonb_path_query_array"
    output_field = JSONField()


def question_rows(
    trajectory: Trajectory, questions: Sequence[BranchQuestion], *, titles: Mapping[int, str], inside: bool
) -> list[QuestionRow]:
    """Return the rows of questions about an attempt, in order. A few queries for all of them.

    Args:
        titles: of other runs whose weights play and which the reader may see, by id.
        inside: whether names of people are shown.
    """
    branches = _branches(questions)
    asked = _asked_about(branches)
    actions = _actions([branch.pk for found in branches.values() for branch in found], questions)
    waiting: dict[int, str] = {}
    answered = _answered(trajectory, questions)
    baselines, first = _baselines(answered), _first_branches(answered)
    rows = []
    for question in questions:
        question.trajectory = trajectory
        found = branches.get(question.group_id or 0, [])
        row = _row(question, found, actions, asked, _status(question, waiting), titles, inside=inside)
        if question.change and question.state == State.DONE:
            solved = baselines.get(_circumstances(question))
            text = f"without the change {solved.solved} of {solved.samples}" if solved else ""
            row = replace(row, baseline=text, wants_baseline=solved is None)
        if question.kind == Kind.BRANCH and found:
            row = replace(row, beside=_beside(question, trajectory, answered, first, titles))
        rows.append(row)
    return rows


def _answered(trajectory: Trajectory, questions: Iterable[BranchQuestion]) -> list[BranchQuestion]:
    """Return all answered questions with branches about an attempt, the newest first. One query if it is needed."""
    if not any(question.kind == Kind.BRANCH for question in questions):
        return []
    found = BranchQuestion.objects.filter(trajectory=trajectory, kind=Kind.BRANCH, state=State.DONE)
    return list(found.order_by("-requested_at", "-pk"))


def _first_branches(answered: Sequence[BranchQuestion]) -> dict[int, str]:
    """Return the first branch of questions, by group. One query."""
    groups = [question.group_id for question in answered if question.group_id is not None]
    found = Trajectory.with_branches.filter(group__in=groups, member=0)
    return dict(found.values_list("group_id", "slug")) if groups else {}


def _beside(
    question: BranchQuestion,
    trajectory: Trajectory,
    answered: Iterable[BranchQuestion],
    first: Mapping[int, str],
    titles: Mapping[int, str],
) -> list[Beside]:
    """Return what the first branch of a question can be seen beside: the recording, and other answers at the turn."""
    found = [Beside(trajectory.slug, "this branch" if trajectory.split == BRANCH else "the recording")]
    for other in answered:
        slug = first.get(other.group_id or 0)
        if other.pk == question.pk or other.turn != question.turn or slug is None:
            continue
        other.trajectory = trajectory
        if label := ", ".join(_differences(question, other, titles)):
            found.append(Beside(slug, label))
    return found[:MAX_BESIDE]


def _differences(question: BranchQuestion, other: BranchQuestion, titles: Mapping[int, str]) -> Iterator[str]:
    """Yield what another question about the turn has that this one has not."""
    if (other.weights_run_id, _checkpoint(other)) != (question.weights_run_id, _checkpoint(question)):
        yield _weights(other, titles)
    if other.temperature != question.temperature:
        yield _temperature(other.temperature)
    if other.luck != question.luck:
        yield "new luck" if other.luck == "fresh" else "luck as recorded"
    if other.change != question.change:
        changed = next((CHANGED[name] for name in CHANGED if name in other.change), "")
        yield f"{changed} changed" if changed else "without the change"


def _baselines(answered: Iterable[BranchQuestion]) -> dict[tuple[Any, ...], Share]:
    """Return the shares solved without a change, by circumstances."""
    shares = {}
    for question in answered:
        if question.change:
            continue
        try:
            shares[_circumstances(question)] = Branches.model_validate(question.result).solved
        except ValidationError:
            continue
    return shares


def _circumstances(question: BranchQuestion) -> tuple[Any, ...]:
    """Return what a question and the same without its change have in common."""
    weights = (question.weights_run_id, question.checkpoint)
    return (question.turn, question.samples, question.temperature, question.luck, *weights)


def _branches(questions: Iterable[BranchQuestion]) -> dict[int, list[Trajectory]]:
    """Return the branches by group: all of the newest questions, and the first one of the others."""
    whole, left = [], MAX_BRANCHES
    groups = [(question.group_id, question.samples) for question in questions if question.group_id is not None]
    for group, samples in reversed(groups):
        left -= samples
        if left >= 0:
            whole.append(group)
    if not groups:
        return {}
    wanted = Q(group__in=whole) | Q(group__in=[group for group, _ in groups], member=0)
    found: dict[int, list[Trajectory]] = defaultdict(list)
    columns = ("slug", "group_id", "member", "status", "end", "error", "lost_at", "turn_count")
    for branch in Trajectory.with_branches.filter(wanted).order_by("member").only(*columns):
        found[branch.group_id].append(branch)
    return found


def _asked_about(groups: Iterable[int]) -> dict[int, int]:
    """Return the number of questions about each branch of these groups, without those that failed. One query."""
    found = BranchQuestion.objects.filter(trajectory__group__in=groups).exclude(state=State.FAILED)
    counted = found.values("trajectory").annotate(count=Count("pk"))
    return dict(counted.values_list("trajectory", "count")) if groups else {}


def _actions(branches: Sequence[int], questions: Iterable[BranchQuestion]) -> dict[tuple[int, int], str]:
    """Return the actions by branch and turn, at the turns at which policies played on."""
    turns = {_first_turn(question) for question in questions if question.kind == Kind.BRANCH}
    if not branches:
        return {}
    names, texts = (_Paths(F("event"), Value(f"$.actions[*].{name}")) for name in ("name", "text"))
    found = Turn.objects.filter(trajectory__in=branches, number__in=turns).annotate(names=names, texts=texts)
    return {
        (branch, number): _joined(named if len(named) == len(written) else written)
        for branch, number, named, written in found.values_list("trajectory_id", "number", "names", "texts")
    }


def _joined(actions: Iterable[Any]) -> str:
    text = ", ".join(map(str, actions)) or "no action"
    return text if len(text) <= MAX_ACTIONS else f"{text[:MAX_ACTIONS]}…"


def _first_turn(question: BranchQuestion) -> int:
    """Return the first turn that the policy played: after a changed answer the next one."""
    return (question.turn or 0) + ("answer" in question.change)


def _status(question: BranchQuestion, waiting: dict[int, str]) -> str:
    if question.state == State.RUNNING:
        noun = {Kind.BRANCH: "branches", Kind.VALUE: "continuations", Kind.THOUGHTS: "samples"}[Kind(question.kind)]
        return f"{question.done} of {question.total} {noun}" if question.done else "A worker begins to play."
    if question.state != State.QUEUED:
        return ""
    run = question.run_with_weights
    if run.pk not in waiting:
        waiting[run.pk] = worker_requests.waiting_text(run)
    return waiting[run.pk]


def _row(
    question: BranchQuestion,
    branches: Sequence[Trajectory],
    actions: Mapping[tuple[int, int], str],
    asked: Mapping[int, int],
    status: str,
    titles: Mapping[int, str],
    *,
    inside: bool,
) -> QuestionRow:
    author = question.requested_by.get_username() if question.requested_by else "a former member"
    tree = _tree(question, branches, actions, asked) if len(branches) > 1 or question.samples == 1 else []
    changed = next((name for name in CHANGED if name in question.change), "")
    return QuestionRow(
        question,
        weights=_weights(question, titles),
        temperature=_temperature(question.temperature),
        changed=CHANGED.get(changed, ""),
        change=str(question.change.get(changed, "")),
        author=author if inside else "",
        status=status,
        next_actions=tree[:MAX_ROWS],
        folded=tree[MAX_ROWS:],
        first=branches[0].slug if branches else "",
        written=_written(question),
        **_answer(question),
    )


def _checkpoint(question: BranchQuestion) -> int:
    return wanted_weights(question) if question.used_checkpoint is None else question.used_checkpoint


def _weights(question: BranchQuestion, titles: Mapping[int, str]) -> str:
    checkpoint = _checkpoint(question)
    run = question.run_with_weights
    is_open = checkpoint == NEWEST and hosted_model(run) is None
    name = "the newest checkpoint" if is_open else weights_name(run, checkpoint)
    if question.weights_run_id is None:
        return name if checkpoint == wanted_weights(question) else f"{name}, the nearest that is kept"
    return f"{name} of {titles.get(question.weights_run_id, 'another run')}"


def _temperature(temperature: float | None) -> str:
    if temperature is None:
        return "temperature as recorded"
    return f"temperature {temperature:g}" if temperature else "greedy"


def _tree(
    question: BranchQuestion,
    branches: Iterable[Trajectory],
    actions: Mapping[tuple[int, int], str],
    asked: Mapping[int, int],
) -> list[NextActions]:
    """Group the branches by their next actions, the most frequent first and those without any last."""
    turn, rows = _first_turn(question), dict[str, NextActions]()
    for branch in branches:
        text = actions.get((branch.pk, turn), "")
        rows.setdefault(text, NextActions(text)).chips.append(_chip(branch, asked.get(branch.pk, 0)))
    return sorted(rows.values(), key=lambda row: (not row.text, -len(row.chips), row.text))


def _chip(branch: Trajectory, questions: int) -> BranchChip:
    label, number = outcome(branch), branch.member + 1
    playing = branch.status in {Trajectory.Status.WAITING, Trajectory.Status.PLAYING}
    sign = "…" if playing else label.sign
    further = f", with {questions} question{'' if questions == 1 else 's'} about it" if questions else ""
    return BranchChip(branch.slug, number, sign, label.tone, f"Branch {number}: {label.word}{further}", questions)


def _written(question: BranchQuestion) -> list[Written]:
    """Return the responses being written, of which the worker sends a few."""
    if question.state != State.RUNNING or not isinstance(question.partial, dict):
        return []
    written = []
    for number, partial in list(question.partial.items())[:MAX_WRITTEN]:
        text, turn = partial.get("text"), partial.get("turn")
        if not isinstance(text, str) or not isinstance(turn, int):
            continue
        label = f"Branch {int(number) + 1}, turn" if question.kind == Kind.BRANCH and number.isdigit() else "Turn"
        written.append(Written(f"{label} {turn + 1}", text if len(text) <= MAX_TAIL else f"…{text[-MAX_TAIL:]}"))
    return written


def _answer(question: BranchQuestion) -> dict[str, Any]:
    """Return the fields of the answer or of the problem."""
    if question.state == State.FAILED:
        return {"problem": question.error or "It failed."}
    if question.state != State.DONE:
        return {}
    try:
        return _READ[Kind(question.kind)](question.result)
    except ValidationError:
        return {"problem": UNREADABLE}


def _branches_answer(result: Any) -> dict[str, Any]:
    answer = Branches.model_validate(result)
    solved, failed = answer.solved, answer.failed
    words = f"; the environment failed in {failed}" if failed else ""
    if not solved.samples:
        return {"headline": f"No branch has an end{words}."}
    return {
        "headline": f"{solved.solved} of {solved.samples} solved{words}",
        "interval": _interval(wilson(solved.solved, solved.samples)),
    }


def _interval(rate: Rate) -> str:
    return f"{rate.value:.0%} (95% interval {rate.low:.0%} to {rate.high:.0%})"


def _values_answer(result: Any) -> dict[str, Any]:
    curve = value_curve(Values.model_validate(result))
    return {"curve": curve, "headline": f"Turn {curve.turn} cost the most" if curve.turn else curve.sentence}


def _influences_answer(result: Any) -> dict[str, Any]:
    table = influence_table(Influences.model_validate(result))
    means = ", ".join(f"{label} {mean}" for label, mean in table.means)
    return {"influences": table, "headline": means.capitalize() or "No turn has an answer to compare"}


_READ = {Kind.BRANCH: _branches_answer, Kind.VALUE: _values_answer, Kind.THOUGHTS: _influences_answer}
