"""Endpoint that launches a group of runs: algorithms × seeds."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode
from ninja import Router, Schema, Status
from pydantic import Field

from webapp.api.auth import caller
from webapp.api.errors import invalid, refused
from webapp.api.idempotency import Key, do_once
from webapp.api.routes.runs import priority_of, requested_config
from webapp.api.schemas.run_schemas import NewRun, RunOut
from webapp.api.schemas.shared_schemas import Text
from webapp.api.serializers import run_out
from webapp.runs.inputs import allowed_inputs
from webapp.runs.launch.creation import SchedulingOptions, do_create_group, free_name, runs_beside
from webapp.runs.launch.experiment import ExperimentRefused, default_name, plan
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
    team = requester.team_to_write_in(payload.team)
    config, preset = requested_config(payload)
    priority = priority_of(requester, team.pk, payload.priority)
    if problems := allowed_inputs.problems(config, requester.runs()):
        raise invalid(problems)
    try:
        planned = plan(config, preset, payload.arms, payload.seeds)
    except ExperimentRefused as refusal:
        raise invalid({refusal.field: str(refusal)}) from None

    def make() -> Run:
        name = payload.group.strip() or free_name(team, default_name(config, payload.arms, payload.seeds))
        return do_create_group(
            team,
            requester.user,
            planned,
            group=name,
            scheduling=SchedulingOptions(payload.queue or "", payload.gpus, priority),
            visibility=Run.Visibility(payload.visibility),
        )[0]

    identity = payload.model_dump(mode="json") | {"team": team.slug}
    first, created = do_once(requester.user, "group", key, identity, make)
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
