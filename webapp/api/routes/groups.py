"""Endpoint that launches a group of runs: algorithms × seeds."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode
from ninja import Router, Schema, Status
from pydantic import Field

from webapp.api.auth import caller
from webapp.api.errors import refused
from webapp.api.idempotency import Key
from webapp.api.routes.runs import launch_once, requested_launch
from webapp.api.schemas.run_schemas import NewRun, RunOut
from webapp.api.schemas.shared_schemas import Text
from webapp.api.serializers import run_out
from webapp.runs.launch.creation import runs_beside
from webapp.runs.models import Run

router = Router(tags=["runs"])


class NewGroup(NewRun):
    """An experiment to launch: each arm with each seed is one run."""

    arms: Annotated[list[Text], Field(max_length=10)] = Field(
        default_factory=list,
        description="Algorithms, as in starpo and starpo_s: those with a preset of the same environment and policy as "
        "`preset`. Each takes the settings in which its preset differs. Default: the preset's own.",
    )
    seeds: Annotated[int, Field(strict=True, ge=1, le=5)] = Field(
        default=3, description="Number of seeds, from that of the configuration upwards."
    )


class GroupOut(Schema):
    """Runs launched as a group."""

    group: str = Field(description="Its name.")
    url: str = Field(description="The list of its runs.")
    compare_url: str = Field(description="Their comparison.")
    runs: list[RunOut]


MADE: dict[int, Any] = {200: GroupOut, 201: GroupOut}


@router.post("/groups", response=MADE | refused(409), operation_id="create_group", summary="Launch a group of runs")
def create_group(request: HttpRequest, payload: NewGroup, key: Key = None) -> Status[GroupOut]:
    """Launch each arm with each seed, all runs or none. A team's quota of queued runs counts all of them."""
    requester = caller(request)
    launch_request = replace(requested_launch(requester, payload), arms=payload.arms, seeds=payload.seeds, grouped=True)
    first, created = launch_once(requester, launch_request, "group", key, payload, team=launch_request.team.slug)
    return Status(201 if created else 200, _group_out(request, runs_beside(first)))


def _group_out(request: HttpRequest, runs: list[Run]) -> GroupOut:
    query = urlencode({"group": runs[0].group})
    slugs = ",".join(run.slug for run in runs)
    return GroupOut(
        group=runs[0].group,
        url=request.build_absolute_uri(f"{reverse('runs')}?{query}"),
        compare_url=request.build_absolute_uri(f"{reverse('compare')}?runs={slugs}"),
        runs=[run_out(request, run) for run in runs],
    )
