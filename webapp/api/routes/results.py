"""Endpoints of a run's results: metrics, alarms, checkpoints, evaluations, log. Read-only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from django.db import connection
from django.db.models import Count, Max
from django.http import HttpRequest, StreamingHttpResponse
from ninja import Path, Query, Router, Schema
from pydantic import Field

from webapp.api.auth import caller
from webapp.api.errors import Problem, invalid, refused
from webapp.api.schemas.result_schemas import (
    AlarmOut,
    Bucket,
    CheckpointOut,
    CurveOut,
    EvaluationOut,
    GeneralizationOut,
    LogOut,
    MetricOut,
)
from webapp.api.schemas.shared_schemas import RunSlug, Whole
from webapp.core.streaming import streamed
from webapp.runs import curves, run_files
from webapp.runs.actions import record_run
from webapp.runs.models import GeneralizationMatrix, Run
from webapp.runs.run_files import log_tail
from webapp.teams.models import AuditAction
from webapp.trajectories.exports.policy_archive import policy_archive

router = Router(tags=["results"])
SavedIteration = Annotated[int, Path(ge=0, le=2**31 - 1, description="Iteration after which it was saved.")]


@router.get(
    "/runs/{slug}/metrics",
    response={200: list[MetricOut]} | refused(),
    operation_id="list_metrics",
    summary="List a run's metrics",
)
def list_metrics(request: HttpRequest, slug: RunSlug) -> list[MetricOut]:
    """Names, meanings and latest values."""
    run = caller(request).run(slug)
    newest = run.metrics.order_by("name", "-iteration").distinct("name").values_list("name", "value")
    values = dict(newest)
    counted = run.metrics.values("name").annotate(points=Count("pk"), newest=Max("iteration")).order_by("name")
    specs = [(curves.described(row["name"]), row) for row in counted if row["name"] in values]
    return [
        MetricOut(
            name=row["name"],
            title=spec.title,
            section=spec.section,
            unit=spec.unit,
            meaning=spec.meaning,
            points=row["points"],
            last_iteration=row["newest"],
            last=values[row["name"]],
        )
        for spec, row in specs
    ]


class PointsQuery(Schema):
    """Names, iterations and resolution of the requested points."""

    name: list[Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00]+$")]] = Field(
        min_length=1, max_length=30, description="Metric name; repeat for several."
    )
    first: Whole = Field(0, description="First iteration.")
    last: Whole | None = Field(None, description="Last iteration; default: the newest.")
    buckets: Annotated[int, Field(ge=1, le=5000)] = Field(500, description="Maximum number of points per metric.")


@router.get(
    "/runs/{slug}/metrics/points",
    response={200: list[CurveOut]} | refused(),
    operation_id="get_metric_points",
    summary="Read points of metrics",
)
def get_metric_points(request: HttpRequest, slug: RunSlug, query: Query[PointsQuery]) -> list[CurveOut]:
    """Each point has the minimum, maximum and last value of its iterations, which keeps spikes visible in long runs."""
    run = caller(request).run(slug)
    names = list(dict.fromkeys(query.name))
    last = query.last
    if last is None:
        newest = run.metrics.filter(name__in=names).aggregate(newest=Max("iteration"))["newest"]
        last = max(query.first, newest or 0)
    if last < query.first:
        raise invalid({"last": f"must be at least {query.first}, the first iteration"})
    points = _buckets(run, names, query.first, last, query.buckets)
    return [CurveOut(name=name, points=points[name]) for name in names]


_BUCKETS = """
    SELECT name, min(iteration), max(iteration), min(value), max(value), (array_agg(value ORDER BY iteration DESC))[1],
        max(tokens), max(seconds)
    FROM runs_metricpoint
    WHERE run_id = %s AND name = ANY(%s) AND iteration BETWEEN %s AND %s
    GROUP BY name, div((iteration - %s)::numeric, %s)
    ORDER BY name, min(iteration)
"""


def _buckets(run: Run, names: Sequence[str], first: int, last: int, count: int) -> dict[str, list[Bucket]]:
    """Return at most `count` buckets for each metric; one per iteration if there are no more than that."""
    width = max(1, -(-(last - first + 1) // count))
    points: dict[str, list[Bucket]] = {name: [] for name in names}
    with connection.cursor() as cursor:
        cursor.execute(_BUCKETS, [run.pk, list(names), first, last, first, width])
        for name, low, high, minimum, maximum, newest, tokens, seconds in cursor.fetchall():
            points[name].append(
                Bucket(
                    first_iteration=low,
                    last_iteration=high,
                    min=minimum,
                    max=maximum,
                    last=newest,
                    tokens=tokens,
                    seconds=seconds,
                )
            )
    return points


@router.get(
    "/runs/{slug}/alarms",
    response={200: list[AlarmOut]} | refused(),
    operation_id="list_alarms",
    summary="List a run's Echo Trap alarms",
)
def list_alarms(request: HttpRequest, slug: RunSlug) -> list[AlarmOut]:
    """The latest 200, newest first."""
    points = caller(request).run(slug).alarms.order_by("-seq", "-pk")[:200]
    return [AlarmOut.from_orm(alarm) for alarm in points]


@router.get(
    "/runs/{slug}/checkpoints",
    response={200: list[CheckpointOut]} | refused(),
    operation_id="list_checkpoints",
    summary="List a run's checkpoints",
)
def list_checkpoints(request: HttpRequest, slug: RunSlug) -> list[CheckpointOut]:
    """Checkpoints on disk, oldest first. Only for members of the run's team."""
    points = caller(request).run_of_team(slug).checkpoints.order_by("iteration")
    return [CheckpointOut.from_orm(checkpoint) for checkpoint in points]


@router.get(
    "/runs/{slug}/checkpoints/{iteration}/model.tar",
    response={200: None} | refused(),
    operation_id="download_model",
    summary="Download the model of a checkpoint",
    openapi_extra={
        "responses": {200: {"content": {"application/x-tar": {"schema": {"type": "string", "format": "binary"}}}}}
    },
)
def download_model(
    request: HttpRequest,
    slug: RunSlug,
    iteration: SavedIteration,
) -> StreamingHttpResponse:
    """A tar archive with a transformers model folder and its model card, without the state to resume from.

    Only for the run's team.
    """
    run = caller(request).run_of_team(slug)
    archive = policy_archive(run, iteration)
    if archive is None:
        raise Problem(404, f"the checkpoint of iteration {iteration} is neither on this machine nor in storage")
    name = f"{run_files.model_name(run, iteration)}.tar"
    record_run(AuditAction.EXPORTED, run, file=name)
    return streamed(request, archive, "application/x-tar", name, compressible=False)


@router.get(
    "/runs/{slug}/evaluations",
    response={200: list[EvaluationOut]} | refused(),
    operation_id="list_evaluations",
    summary="List a run's evaluations",
)
def list_evaluations(request: HttpRequest, slug: RunSlug) -> list[EvaluationOut]:
    """Evaluations by suite, oldest first."""
    points = caller(request).run(slug).evaluations.order_by("suite", "iteration")
    return [EvaluationOut.from_orm(evaluation) for evaluation in points]


@router.get(
    "/runs/{slug}/generalization",
    response={200: GeneralizationOut} | refused(),
    operation_id="get_generalization",
    summary="Read a run's generalization matrix",
)
def get_generalization(request: HttpRequest, slug: RunSlug) -> GeneralizationOut:
    """Policies × suites, from `python -m trainer matrix`. 404 for a run without such a matrix."""
    matrix = GeneralizationMatrix.objects.filter(run=caller(request).run(slug)).first()
    if matrix is None:
        raise Problem(404, f"Run {slug} holds no generalization matrix: `python -m trainer matrix` makes one.")
    return GeneralizationOut.model_validate(
        {"suites": matrix.suites, "policies": matrix.policies, "cells": matrix.cells, "time": matrix.time}
    )


@router.get("/runs/{slug}/log", response={200: LogOut} | refused(), operation_id="get_log", summary="Read a run's log")
def get_log(request: HttpRequest, slug: RunSlug) -> LogOut:
    """The end of the log. Only for members of the run's team."""
    return LogOut(text=log_tail(caller(request).run_of_team(slug)))
