"""A launch as one object: what somebody asks for, what that would launch, and the launch itself.

The form with its checks and exports, the API, studies, and the buttons that launch a preset each parse their input into
a LaunchRequest. Everything after that is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from trainer.config.run import RunConfig
from webapp.core import formatting
from webapp.core.database import database_now
from webapp.runs.access import require_may_prefer
from webapp.runs.actions import RequestRefused
from webapp.runs.inputs import allowed_inputs
from webapp.runs.launch import estimates, experiment, summary
from webapp.runs.launch.creation import SchedulingOptions, do_create_group, do_create_run, free_name
from webapp.runs.launch.experiment import ExperimentRefused, PlannedRun
from webapp.runs.model_cards import cards
from webapp.runs.models import Run
from webapp.runs.queue import device_classes
from webapp.runs.queue.capacity import Capacity, capacity_now, expected_wait, present_wait
from webapp.runs.stored_models import model_requests
from webapp.teams.models import Team, User


@dataclass(frozen=True)
class LaunchRequest:
    """What somebody asks to launch, parsed once.

    Attributes:
        config: None if its settings are invalid.
        preset: name of the preset that it starts from, or empty.
        arms: algorithms to compare, by the keys of experiment.Arm; empty: the configuration's own.
        runs: of a study, which plans them itself, one seed after the other; `config` is then one that stands for all.
        group: name of the group as it was given; empty: several runs get one made from the experiment.
        grouped: whether a single run gets such a name, too.
        key: a later request of the same author with this key launches nothing; empty: none.
        errors: of what was given, by field.
    """

    team: Team
    config: RunConfig | None
    preset: str = ""
    arms: Sequence[str] = ()
    seeds: int = 1
    runs: Sequence[PlannedRun] = ()
    group: str = ""
    grouped: bool = False
    scheduling: SchedulingOptions = field(default_factory=SchedulingOptions)
    visibility: Run.Visibility = Run.Visibility.TEAM
    key: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)

    @property
    def several(self) -> bool:
        """Whether the request is for an experiment rather than for the configuration's own run."""
        own = self.config and experiment.own_arm(self.config, self.preset)
        return self.seeds > 1 or bool(own and set(self.arms) - {own.key})


@dataclass(frozen=True)
class LaunchPlan:
    """The runs that a request would launch, or the errors that prevent it, by field.

    `config` is None if its settings are invalid, or name what this site does not allow.
    """

    request: LaunchRequest
    config: RunConfig | None
    runs: Sequence[PlannedRun]
    errors: Mapping[str, str]
    capacity: Capacity

    @cached_property
    def place(self) -> tuple[str, int]:
        """Device class and number of GPUs of each run."""
        if self.config is None:
            return device_classes.ANY, 0
        return self.request.scheduling.resolved(self.config, self.capacity.workers.keys())

    @property
    def configs(self) -> Sequence[RunConfig]:
        """The configurations without their repetitions by seed; empty for invalid settings."""
        return [] if self.config is None else _without_seeds(self.request)

    @cached_property
    def missing_models(self) -> Mapping[str, RunConfig]:
        """Models that a worker has to download first, each with a configuration that names it."""
        named = {config.policy.model: config for config in reversed(self.configs)}
        return {model: config for model, config in named.items() if model_requests.needs_download(model)}

    @property
    def needs_download(self) -> bool:
        """Whether a worker has to download a model first."""
        return bool(self.missing_models)

    @property
    def group(self) -> str:
        """Name of the group, as it was given or made from the experiment."""
        request = self.request
        if request.group or self.config is None:
            return request.group
        return experiment.default_name(self.config, request.arms, request.seeds)

    @property
    def title(self) -> str:
        """What is launched, in a few words; empty for invalid settings."""
        if self.config is None:
            return ""
        runs = len(self.runs)
        return self.config.title() if runs < 2 else f"{self.group}: {formatting.plural(runs, 'run')}"

    def wait(self, author: User) -> str:
        """When the first run would start if that user launched it: the authors of a team take turns."""
        if self.config is None:
            return present_wait(self.capacity)
        now, (queue, gpus) = timezone.now(), self.place
        newcomer = Run(
            team_id=self.request.team.pk,
            author_id=author.pk,
            queue=queue,
            gpus=gpus,
            queued_at=now,
            priority=self.request.scheduling.priority,
            memory=estimates.needed_memory(self.config, gpus),
            memory_without_gpu=estimates.memory_without_gpu(self.config, gpus),
            config=self.config.model_dump(mode="json"),
        )
        return expected_wait(newcomer, self.capacity, now)

    @property
    def warnings(self) -> list[str]:
        """What is valid and may surprise."""
        found = (text for config in self.configs for text in summary.warnings(config, self.capacity, self.place[0]))
        return list(dict.fromkeys(found))

    def figures(self, user: User) -> list[estimates.Figure]:
        """Estimates for one of the runs, from those that the user may read; empty for invalid settings."""
        if self.config is None:
            return []
        queue, gpus = self.place
        on_gpu = self.config.policy.device == "cuda" or (gpus > 0 and queue in self.capacity.with_gpus)
        return estimates.figures(user, self.config, gpu=on_gpu)


def _without_seeds(request: LaunchRequest) -> list[RunConfig]:
    """Configurations of a request without their repetitions by seed."""
    if request.config is None:
        return []
    runs = [run.config for run in request.runs]
    return [config for config in runs if config.seed == runs[0].seed] or [request.config]


def plan_launch(request: LaunchRequest, readable: QuerySet[Run]) -> LaunchPlan:
    """Check a request, and plan its runs.

    Args:
        readable: runs that the author may read as a member of their teams.
    """
    config, errors, runs = request.config, dict(request.errors), request.runs
    problems: dict[str, str] = {}
    for one in _without_seeds(request):
        problems = allowed_inputs.problems(one, readable) | problems
    if problems:
        config, errors = None, errors | problems
    if config is not None and not runs:
        try:
            runs = experiment.plan(config, request.preset, request.arms, request.seeds)
        except ExperimentRefused as refusal:
            errors[refusal.field] = str(refusal)
    return LaunchPlan(request, config, runs, errors, capacity_now(database_now()))


@transaction.atomic
def do_launch(plan: LaunchPlan, author: User) -> list[Run]:
    """Request the models that have to be downloaded, and create all runs of a plan, or none.

    Raises:
        PermissionDenied: the author may not use the priority.
        RequestRefused: the plan has errors, or a model cannot be downloaded.
        QuotaExceeded: of runs, or of models.
    """
    request = plan.request
    if plan.config is None or plan.errors:
        raise RequestRefused("; ".join(f"{name}: {text}" for name, text in plan.errors.items()))
    require_may_prefer(author, request.team.pk, request.scheduling.priority)
    for model, config in plan.missing_models.items():
        model_requests.do_request_download(author, model, cards.suitable_worker(config, plan.place[0]))
    if len(plan.runs) > 1 or request.grouped:
        return do_create_group(
            request.team,
            author,
            plan.runs,
            group=request.group or free_name(request.team, plan.group),
            scheduling=request.scheduling,
            visibility=request.visibility,
            launch_key=request.key,
        )
    run = do_create_run(
        request.team,
        author,
        plan.runs[0].config,
        preset=plan.runs[0].preset,
        scheduling=request.scheduling,
        visibility=request.visibility,
        launch_key=request.key,
        group=request.group,
    )
    return [run]
