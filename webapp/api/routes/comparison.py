"""Endpoints that compare runs: differing settings, results, and attempts at the same puzzle. Read-only."""

from __future__ import annotations

from typing import Annotated

from django.http import HttpRequest
from django.urls import reverse
from ninja import Query, Router, Schema
from pydantic import Field

from webapp.api.auth import caller
from webapp.api.errors import Problem, invalid, refused
from webapp.api.schemas.result_schemas import EvaluationOut
from webapp.api.schemas.shared_schemas import Slug, Whole
from webapp.explorer import compare
from webapp.runs.models import Run

router = Router(tags=["results"])
RunSlugs = Annotated[
    list[Slug],
    Field(min_length=1, max_length=compare.MAX_RUNS, description="Slug of a run; repeat for several."),
]


class ComparisonQuery(Schema):
    """The runs to compare."""

    run: RunSlugs


class PuzzleQuery(ComparisonQuery):
    """The runs, and a puzzle of a suite in which they were evaluated."""

    suite: Annotated[str, Field(max_length=100, pattern=r"^[^\x00]+$")] = Field(description="Name of the suite.")
    number: Whole = Field(0, description="Index of the puzzle in the suite, from 0.")


class ComparedRunOut(Schema):
    """A compared run with its latest results."""

    letter: str = Field(description="Its name in the comparison.")
    slug: str
    url: str
    title: str
    environment: str
    algorithm: str = Field(description="In words.")
    state: str
    iteration: int
    tokens: float | None = Field(description="Sampled tokens so far.")
    seconds: float | None = Field(description="Training time so far.")
    evaluation: EvaluationOut | None = Field(description="Its newest one, if any of its own environment.")


class DifferenceOut(Schema):
    """A setting that differs between the runs."""

    name: str = Field(description="Dotted name.")
    label: str
    section: str
    unit: str
    values: list[str] = Field(description="In the order of the runs.")


class ComparisonOut(Schema):
    """Runs side by side."""

    url: str = Field(description="Page of the comparison.")
    runs: list[ComparedRunOut]
    differences: list[DifferenceOut]
    suites: list[str] = Field(description="Suites in which at least one was evaluated, the most shared one first.")
    warning: str = Field(description="Why the results are not comparable yet; empty if they are.")


class AttemptOut(Schema):
    """A run's attempt at a puzzle."""

    run: str = Field(description="Slug.")
    trajectory: str | None = Field(description="Slug; null if the run did not play this puzzle from the same start.")
    success: bool | None
    total_reward: float | None


class PuzzleOut(Schema):
    """A puzzle of a suite, as each run played it in its newest evaluation."""

    suite: str
    number: int = Field(description="From 0; the last one if a later one was asked for.")
    count: int = Field(description="Number of puzzles in the suite.")
    seed: int
    attempts: list[AttemptOut]


@router.get("/compare", response={200: ComparisonOut} | refused(), operation_id="compare_runs", summary="Compare runs")
def compare_runs(request: HttpRequest, query: Query[ComparisonQuery]) -> ComparisonOut:
    """Results and differing settings of up to ten runs. Curves: read the metrics of each run."""
    runs = _runs(request, query.run)
    sides = compare.sides(runs)
    return ComparisonOut(
        url=request.build_absolute_uri(f"{reverse('compare')}?runs={','.join(run.slug for run in runs)}"),
        runs=[_compared(request, side) for side in sides],
        differences=[
            DifferenceOut(
                name=difference.name,
                label=difference.label,
                section=group.title,
                unit=difference.unit,
                values=difference.values,
            )
            for group in compare.differences(runs)
            for difference in group.differences
        ],
        suites=compare.suites(runs),
        warning=compare.unequal_text(sides),
    )


@router.get(
    "/compare/puzzle",
    response={200: PuzzleOut} | refused(),
    operation_id="compare_puzzle",
    summary="Compare runs on one puzzle",
)
def compare_puzzle(request: HttpRequest, query: Query[PuzzleQuery]) -> PuzzleOut:
    """Only attempts from the same initial state are compared."""
    runs = _runs(request, query.run)
    prompt = compare.prompt(compare.sides(runs), query.suite, query.number)
    if prompt is None:
        raise Problem(404, f"None of these runs was evaluated in the suite {query.suite}.")
    return PuzzleOut(
        suite=prompt.suite,
        number=prompt.number,
        count=prompt.count,
        seed=prompt.seed,
        attempts=[
            AttemptOut(
                run=play.side.run.slug,
                trajectory=play.trajectory.slug if play.trajectory else None,
                success=play.trajectory.success if play.trajectory else None,
                total_reward=play.trajectory.reward if play.trajectory else None,
            )
            for play in prompt.plays
        ],
    )


def _runs(request: HttpRequest, slugs: list[str]) -> list[Run]:
    """Return the runs in the requested order. Raises Problem."""
    if len(set(slugs)) < len(slugs):
        raise invalid({"run": "names the same run twice"})
    requester = caller(request)
    return [requester.run(slug) for slug in slugs]


def _compared(request: HttpRequest, side: compare.Side) -> ComparedRunOut:
    run = side.run
    return ComparedRunOut(
        letter=side.letter,
        slug=run.slug,
        url=request.build_absolute_uri(reverse("run", args=[run.slug])),
        title=run.title,
        environment=run.environment,
        algorithm=side.algorithm,
        state=run.state,
        iteration=run.iteration,
        tokens=side.tokens,
        seconds=side.seconds,
        evaluation=None if side.result is None else EvaluationOut.from_orm(side.result),
    )
