"""Launch of a study's runs, by the requests and plans of the launch form and the API."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import QuerySet

from trainer.config.run import RunConfig
from webapp.runs.launch.creation import SchedulingOptions
from webapp.runs.launch.experiment import PlannedRun
from webapp.runs.launch.planning import LaunchPlan, LaunchRequest, plan_launch
from webapp.runs.models import Run
from webapp.studies.study_plan import PlannedCell, StudyPlan, StudyRefused, planned
from webapp.studies.study_spec import CatalogueSpec, Spec
from webapp.teams.models import Team, User


def launchable(
    spec: Spec, author: User, team: Team, scheduling: SchedulingOptions, readable: QuerySet[Run]
) -> tuple[StudyPlan, LaunchPlan]:
    """Return the plan and the launch of a study, if this site may run it now. Raises StudyRefused.

    Args:
        readable: runs that the author may read as a member of their teams.
    """
    plan = planned(spec)
    config = plan.common or plan.cells[0].config
    launch = plan_launch(build_request(author, team, config, plan.cells, scheduling), readable)
    if launch.errors:
        raise StudyRefused("config", "; ".join(f"{name}: {text}" for name, text in launch.errors.items()))
    if any(arm_config.policy.device == "cuda" for arm_config in launch.configs) and not launch.capacity.has_gpus:
        field = "scale" if isinstance(spec, CatalogueSpec) else "preset"
        raise StudyRefused(field, "needs an NVIDIA GPU, and no worker with one is online: start one, or choose another")
    return plan, launch


def build_request(
    author: User,
    team: Team,
    config: RunConfig,
    cells: Sequence[PlannedCell],
    scheduling: SchedulingOptions,
    *,
    visibility: Run.Visibility = Run.Visibility.TEAM,
    group: str = "",
) -> LaunchRequest:
    """Return a request to launch these runs of a study; `config` represents all of them."""
    return LaunchRequest(
        author,
        team,
        config,
        runs=[PlannedRun(cell.preset, cell.config) for cell in cells],
        group=group,
        grouped=True,
        scheduling=scheduling,
        visibility=visibility,
    )
