"""Evaluation tab of a run: results of each suite with their intervals, and the generalisation matrix."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_GET

from trainer.metrics import charts
from webapp.explorer.evaluation_history import load_history
from webapp.pages.run_page import run_page
from webapp.runs import generalization
from webapp.runs.access import get_run
from webapp.runs.models import Evaluation
from webapp.teams.decorators import account_optional


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
    """A suite and its results, oldest first."""

    suite: str
    results: list[Result]

    @property
    def sampled(self) -> bool:
        """True if prompts were played more than once."""
        return any(result.passed for result in self.results)

    @property
    def last(self) -> Evaluation:
        return self.results[-1].evaluation


def suite_results(evaluations: list[Evaluation]) -> list[SuiteResults]:
    """Group results by suite. `evaluations` are ordered by suite and iteration."""
    return [
        SuiteResults(suite, [Result(evaluation, list(evaluation.passed_at())) for evaluation in group])
        for suite, group in groupby(evaluations, key=lambda evaluation: evaluation.suite)
    ]


@account_optional
@require_GET
def run_evaluation(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the main suite through training, the results of each suite, and results of other policies."""
    run = get_run(request.user, slug)
    results = list(Evaluation.objects.filter(run=run).order_by("suite", "iteration"))
    suites = suite_results(results)
    main_suite = next((suite for suite in suites if suite.suite == run.environment), None)
    if main_suite is not None:
        suites = [main_suite, *(suite for suite in suites if suite is not main_suite)]
    return run_page(
        request,
        run,
        "run-evaluation",
        "runs/evaluation.html",
        suite_results=suites,
        history=load_history(run, [suite.evaluation for suite in suites[0].results]) if suites else None,
        width=charts.WHISKER,
        axis=mark_safe(charts.whisker_axis()),
        matrix=generalization.table(run),
        sampled=any(suite.sampled for suite in suites),
    )
