"""Questions about evaluations on the evaluation tab: their state, the answer in a sentence, and its rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zlib import crc32

from pydantic import ValidationError

from trainer.journal.branches import CorrectedAttempt, Corrections, Interval, Survey
from webapp.branching.models import EvaluationQuestion
from webapp.core import formatting
from webapp.runs import public_texts, worker_requests
from webapp.runs.models import Run
from webapp.teams.access import role_in_team
from webapp.trajectories.models import Trajectory

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from webapp.teams.models import User

Kind, State = EvaluationQuestion.Kind, EvaluationQuestion.State
MAX_SHOWN = 6
"""Questions about a suite that are shown, the newest."""
UNREADABLE = "The answer of the worker cannot be read."


@dataclass(frozen=True)
class NamedAttempt:
    """An attempt with its page; without one if it is no longer stored."""

    name: str
    slug: str = ""


@dataclass(frozen=True)
class CorrectedRow:
    """A lost attempt with what it misread, and how often the continuations were solved."""

    attempt: NamedAttempt
    turn: int
    misread: str
    corrected: str
    solved: str
    solved_without: str


@dataclass(frozen=True)
class InfluenceOfAttempt:
    """Influence of an attempt's thoughts, as text."""

    attempt: NamedAttempt
    influence: str
    follows_false_claims: str


@dataclass(frozen=True)
class EvaluationAnswer:
    """A question with its state and answer."""

    question: EvaluationQuestion
    when: str
    weights: str = ""
    author: str = ""
    status: str = ""
    sentence: str = ""
    detail: str = ""
    problem: str = ""
    corrected: Sequence[CorrectedRow] = ()
    influences: Sequence[InfluenceOfAttempt] = ()

    @property
    def shown(self) -> str:
        """Identify what is shown: an open page asks for something else."""
        return str(crc32(repr((self.question.state, self.status, self.problem)).encode(errors="replace")))


def answers_by_suite(user: User | AnonymousUser, run: Run) -> dict[str, list[EvaluationAnswer]]:
    """Return the newest questions about the evaluations of each suite, newest first. A few queries, one without any.

    Args:
        user: whoever sees them: names of people and the reasons of failures are for the team.
    """
    known = EvaluationQuestion.objects.filter(run=run).order_by("-requested_at", "-pk").values_list("suite", "pk")
    newest: dict[str, list[int]] = defaultdict(list)
    for suite, key in known:
        if len(newest[suite]) < MAX_SHOWN:
            newest[suite].append(key)
    if not newest:
        return {}
    inside = role_in_team(user, run.team_id) is not None
    keys = [key for of_suite in newest.values() for key in of_suite]
    shown = list(EvaluationQuestion.objects.filter(pk__in=keys).select_related("requested_by"))
    for question in shown:
        question.run = run
    names = _names(run, shown)
    waiting = worker_requests.waiting_text(run) if any(question.state == State.QUEUED for question in shown) else ""
    answers = {question.pk: _answer(question, names, waiting, inside=inside) for question in shown}
    return {suite: [answers[key] for key in of_suite if key in answers] for suite, of_suite in newest.items()}


def answer_of(run: Run, slug: str, *, inside: bool) -> EvaluationAnswer | None:
    """Return one question about a run with its answer; None if it is gone."""
    question = EvaluationQuestion.objects.filter(run=run, slug=slug).select_related("requested_by").first()
    if question is None:
        return None
    question.run = run
    waiting = worker_requests.waiting_text(run) if question.state == State.QUEUED else ""
    return _answer(question, _names(run, [question]), waiting, inside=inside)


def _names(run: Run, questions: Iterable[EvaluationQuestion]) -> dict[str, NamedAttempt]:
    """Return the attempts of answers by their id in the journal. One query if there is an answer."""
    rows = [row for question in questions for row in (question.result or {}).get("rows", ()) if isinstance(row, dict)]
    keys = {row.get("trajectory") for row in rows if isinstance(row.get("trajectory"), str)}
    if not keys:
        return {}
    found = Trajectory.objects.current().filter(run=run, key__in=keys)
    noun = run.task_noun.capitalize()
    return {
        key: NamedAttempt(f"{noun} {number + 1}" + (f", attempt {member + 1}" if member else ""), slug)
        for key, slug, number, member in found.values_list("key", "slug", "group__number", "member")
    }


def _answer(
    question: EvaluationQuestion, names: Mapping[str, NamedAttempt], waiting: str, *, inside: bool
) -> EvaluationAnswer:
    when = question.run.when(question.iteration)
    author = question.requested_by.get_username() if question.requested_by else "a former member"
    common: dict[str, Any] = {"when": when, "author": author if inside else ""}
    if question.state == State.QUEUED:
        return EvaluationAnswer(question, **common, status=waiting)
    if question.state == State.RUNNING:
        return EvaluationAnswer(question, **common, status=_progress(question))
    if question.state == State.FAILED:
        problem = public_texts.failure_text(question.error, inside=inside) or "It failed."
        return EvaluationAnswer(question, **common, problem=problem)
    try:
        facts = (_corrections if question.kind == Kind.CORRECTIONS else _survey)(question, names)
        return EvaluationAnswer(question, **common, weights=_weights(question), **facts)
    except ValidationError:
        return EvaluationAnswer(question, **common, problem=UNREADABLE)


def _progress(question: EvaluationQuestion) -> str:
    if not question.total:
        return "A worker begins to play."
    noun = "continuations" if question.kind == Kind.CORRECTIONS else "turns"
    return f"{question.done:,} of {question.total:,} {noun}"


def _weights(question: EvaluationQuestion) -> str:
    """Return when the evaluation was, and which weights played on if they are others."""
    when, used = question.run.when(question.iteration), question.used_checkpoint
    asked = f"{when[:1].upper()}{when[1:]}"
    if used in (None, question.iteration):
        return f"{asked}."
    return f"{asked}, by the nearest weights that are kept: {question.run.when(used or 0)}."


def _corrections(question: EvaluationQuestion, names: Mapping[str, NamedAttempt]) -> dict[str, Any]:
    result = Corrections.model_validate(question.result)
    lost = formatting.plural(result.lost, "lost attempt")
    misread = f"{result.correctable} of {lost} misread a position that can be put right"
    if result.difference is None:
        return {"sentence": f"{misread[:1].upper()}{misread[1:]}."}
    gained, low, high = (formatting.points(number) for number in _numbers(result.difference))
    played = formatting.plural(len(result.rows), "lost attempt")
    return {
        "sentence": (
            f"Correcting the first false position wins {formatting.percent(result.solved.share)} of {played}, "
            f"{formatting.percent(result.solved_without.share)} without "
            f"({gained} points, 95% interval {low} to {high})."
        ),
        "detail": (
            f"{misread}. Shares are of {result.solved.samples} continuations behind the corrected thought, and of "
            f"{result.solved_without.samples} behind the thought as it was, with the same seeds."
        ),
        "corrected": [_corrected_row(row, names) for row in result.rows],
    }


def _corrected_row(row: CorrectedAttempt, names: Mapping[str, NamedAttempt]) -> CorrectedRow:
    return CorrectedRow(
        names.get(row.trajectory, NamedAttempt(row.trajectory)),
        row.turn + 1,
        "; ".join(row.claims),
        "; ".join(row.corrections),
        f"{row.solved} of {row.samples}",
        f"{row.solved_without} of {row.samples_without}",
    )


def _survey(question: EvaluationQuestion, names: Mapping[str, NamedAttempt]) -> dict[str, Any]:
    result = Survey.model_validate(question.result)
    if result.influence is None:
        return {"sentence": "No turn of these attempts has a thought that can be exchanged."}
    sentence = f"The influence of its thoughts on the next actions is {_interval(result.influence)}"
    if result.follows_false_claims is not None:
        sentence += f", of false claims in them {_interval(result.follows_false_claims)}"
    asked = formatting.plural(len(result.rows), "attempt")
    return {
        "sentence": f"{sentence}.",
        "detail": f"0: its thoughts are decoration; 1: they decide. Mean of {asked} of {result.attempts}.",
        "influences": [
            InfluenceOfAttempt(
                names.get(row.trajectory, NamedAttempt(row.trajectory)),
                _distance(row.influence),
                _distance(row.follows_false_claims),
            )
            for row in result.rows
        ],
    }


def _numbers(interval: Interval) -> tuple[float, float, float]:
    return interval.value, interval.low, interval.high


def _interval(interval: Interval) -> str:
    value, low, high = _numbers(interval)
    return f"{value:.2f} (95% interval {low:.2f} to {high:.2f})"


def _distance(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
