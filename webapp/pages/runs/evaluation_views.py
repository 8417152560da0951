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
        """Contents of its <svg>: elements with numbers only."""
        one, others = self.evaluation, [share for k, share in self.passed if k > 1]
        return mark_safe(charts.whisker(one.success_low, one.success, one.success_high, others, final=one.final))


@dataclass(frozen=True)
class SuiteResults:
    """A suite and its results, oldest first."""

    suite: str
    results: list[Result]

    @property
    def sampled(self) -> bool:
        """Whether prompts were played more than once."""
        return any(result.passed for result in self.results)

    @property
    def last(self) -> Evaluation:
        return self.results[-1].evaluation


def suite_results(evaluations: list[Evaluation]) -> list[SuiteResults]:
    """Results by suite. `evaluations` are ordered by suite and iteration."""
    return [
        SuiteResults(suite, [Result(one, list(one.passed_at())) for one in found])
        for suite, found in groupby(evaluations, key=lambda one: one.suite)
    ]


@account_optional
@require_GET
def run_evaluation(request: HttpRequest, slug: str) -> HttpResponse:
    """The main suite through training, the results of each suite with their intervals, and those of other policies."""
    run = get_run(request.user, slug)
    results = list(Evaluation.objects.filter(run=run).order_by("suite", "iteration"))
    suites = suite_results(results)
    own = next((each for each in suites if each.suite == run.environment), None)
    if own is not None:
        suites = [own, *(each for each in suites if each is not own)]
    return run_page(
        request,
        run,
        "run-evaluation",
        "runs/evaluation.html",
        suite_results=suites,
        history=load_history(run, [each.evaluation for each in suites[0].results]) if suites else None,
        width=charts.WHISKER,
        axis=mark_safe(charts.whisker_axis()),
        matrix=generalization.table(run),
        sampled=any(each.sampled for each in suites),
    )
