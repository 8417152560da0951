"""Evaluation tab of a run: results of each suite with their intervals, and the generalisation matrix."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.http import content_disposition_header
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_GET, require_safe

from trainer.metrics import charts
from webapp.branching.models import EvaluationQuestion
from webapp.branching.policies import continues_text, policy_problem
from webapp.core.streaming import release_connection
from webapp.explorer.evaluation_history import load_history
from webapp.pages.drawing_response import drawing_response
from webapp.pages.evaluation_answers import EvaluationAnswer, answers_by_suite
from webapp.pages.run_page import run_page
from webapp.runs import generalization
from webapp.runs.access import get_run
from webapp.runs.models import Evaluation, Run
from webapp.teams.decorators import account_optional
from webapp.trajectories.render.animation import CONTENT_TYPES
from webapp.trajectories.render.drawing_queue import DRAWINGS
from webapp.trajectories.render.preview import STYLE
from webapp.trajectories.render.wall import WallFrame, draw_wall


@dataclass(frozen=True)
class Result:
    """An evaluation with its drawing: a dot for the success, whiskers for its interval, diamonds for pass@k."""

    evaluation: Evaluation
    passed: list[tuple[int, float]]
    """(k, pass@k)"""

    @property
    def whisker(self) -> SafeString:
        """Contents of its <svg>: elements that contain only numbers."""
        evaluation, others = self.evaluation, [share for k, share in self.passed if k > 1]
        return mark_safe(
            charts.whisker(
                evaluation.success_low, evaluation.success, evaluation.success_high, others, final=evaluation.final
            )
        )


@dataclass(frozen=True)
class SuiteResults:
    """A suite and its results, oldest first, and the questions about its evaluations."""

    suite: str
    results: list[Result]
    answers: list[EvaluationAnswer] = field(default_factory=list)

    @property
    def sampled(self) -> bool:
        """True if prompts were played more than once."""
        return any(result.passed for result in self.results)

    @property
    def last(self) -> Evaluation:
        return self.results[-1].evaluation

    @property
    def unasked(self) -> list[tuple[str, str]]:
        """Kinds of questions, with their names, that nobody has asked about the newest evaluation."""
        newest = [answer.question for answer in self.answers if answer.question.iteration == self.last.iteration]
        asked = {question.kind for question in newest if question.state != EvaluationQuestion.State.FAILED}
        return [(kind, name) for kind, name in EvaluationQuestion.Kind.choices if kind not in asked]


def suite_results(evaluations: list[Evaluation]) -> list[SuiteResults]:
    """Group results by suite. `evaluations` are ordered by suite and iteration."""
    return [
        SuiteResults(suite, [Result(evaluation, list(evaluation.passed_at())) for evaluation in group])
        for suite, group in groupby(evaluations, key=lambda evaluation: evaluation.suite)
    ]


def load_results(run: Run) -> list[SuiteResults]:
    """Load the results of a run by suite; the suite of its own environment comes first."""
    suites = suite_results(list(Evaluation.objects.filter(run=run).order_by("suite", "iteration")))
    return sorted(suites, key=lambda suite: suite.suite != run.environment)


@account_optional
@require_safe
def run_evaluation_wall(request: HttpRequest, slug: str, kind: str) -> HttpResponse:
    """Send the wall of the main suite through training as an animation, GIF or WebP."""
    if kind not in CONTENT_TYPES:
        raise Http404(f"Unknown format of an animation. Available: {', '.join(CONTENT_TYPES)}.")
    run = get_run(request.user, slug)
    suites = load_results(run)
    history = load_history(run, [result.evaluation for result in suites[0].results]) if suites else None
    if history is None or not history.puzzles:
        raise Http404("Nothing to show yet: the run has no evaluation of single puzzles.")
    title = f"{run.title} · {run.suite_label(suites[0].suite)}"
    frames = [WallFrame(run.when(frame.iteration).capitalize(), frame.solved) for frame in history.frames]
    key = hashlib.sha256(repr((STYLE, run.pk, kind, title, frames, history.noun)).encode()).hexdigest()[:24]

    def load() -> Callable[[], bytes]:
        release_connection()
        return lambda: draw_wall(title, frames, kind, history.noun)

    response = drawing_response(request, key, CONTENT_TYPES[kind], lambda: DRAWINGS.get(key, load))
    if response.status_code == 200:
        name = f"how-it-learned-{run.slug}.{kind}"
        response["Content-Disposition"] = content_disposition_header(False, name) or "inline"
    return response


@account_optional
@require_GET
def run_evaluation(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the main suite through training, the results of each suite, and results of other policies."""
    run = get_run(request.user, slug)
    suites = load_results(run)
    answers = answers_by_suite(request.user, run)
    for suite in suites:
        suite.answers.extend(answers.get(suite.suite, []))
    return run_page(
        request,
        run,
        "run-evaluation",
        "runs/evaluation.html",
        suite_results=suites,
        askable=not policy_problem(run) and continues_text(run),
        history=load_history(run, [suite.evaluation for suite in suites[0].results]) if suites else None,
        width=charts.WHISKER,
        axis=mark_safe(charts.whisker_axis()),
        matrix=generalization.table(run),
        sampled=any(suite.sampled for suite in suites),
    )
