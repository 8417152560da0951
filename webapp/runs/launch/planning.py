"""A launch as one object: the request, the runs that it would launch, and the launch itself.

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
from webapp.core import formatting, ids
from webapp.core.database import database_now
from webapp.runs.access import require_may_prefer
from webapp.runs.actions import RequestRefused
from webapp.runs.inputs import allowed_inputs
from webapp.runs.launch import estimates, experiment, summary
from webapp.runs.launch.creation import KEY_LENGTH, RunRequest, SchedulingOptions, do_create_runs, free_name
from webapp.runs.launch.experiment import ExperimentRefused, PlannedRun
from webapp.runs.model_cards import cards
from webapp.runs.models import Run
from webapp.runs.queue import device_classes
from webapp.runs.queue.capacity import Capacity, capacity_now, expected_wait, present_wait
from webapp.runs.stored_models import model_requests
from webapp.teams.models import Team, User


@dataclass(frozen=True)
class LaunchRequest:
    """A parsed request to launch runs.

    Attributes:
        config: None if its settings are invalid.
        preset: name of the preset that it starts from, or empty.
        arms: algorithms to compare, as keys of experiment.ExperimentArm; empty: only the configuration's own.
        runs: the runs of a study, which plans them itself, one seed after another; `config` represents all of them.
        group: name of the group as it was given; if empty, several runs get a default name.
        grouped: True if a single run gets a default name, too.
        key: launch key: a later request of the author with this key launches nothing; empty: no key.
        errors: errors of the input, by field.
    """

    author: User
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
        """True if the request is for an experiment rather than for the configuration's own run."""
        own_arm = self.config and experiment.own_arm(self.config, self.preset)
        return self.seeds > 1 or bool(own_arm and set(self.arms) - {own_arm.key})


@dataclass(frozen=True)
class LaunchPlan:
    """The runs that a request would launch, or the errors that prevent the launch, by field.

    `config` is None if its settings are invalid, or name something that this site does not allow.
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
        """Models that a worker has to download first, each with a configuration that uses it."""
        named = {config.policy.model: config for config in reversed(self.configs)}
        return {model: config for model, config in named.items() if model_requests.needs_download(model)}

    @cached_property
    def downloads(self) -> Mapping[str, str]:
        """Models that a worker has to download first, each with the worker that suits it; empty if there is none."""
        queue = self.place[0]
        return {model: cards.suitable_worker(config, queue) for model, config in self.missing_models.items()}

    @property
    def needs_download(self) -> bool:
        """True if a worker has to download a model first."""
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
        """Short description of the launch; empty for invalid settings."""
        if self.config is None:
            return ""
        runs = len(self.runs)
        return self.config.title() if runs < 2 else f"{self.group}: {formatting.plural(runs, 'run')}"

    @property
    def size(self) -> str:
        """Iterations, trajectories and tokens of each run as text; empty for invalid settings."""
        if self.config is None:
            return ""
        return estimates.size_sentence(self.config) + (", each" if len(self.runs) > 1 else "")

    @property
    def wait(self) -> str:
        """Describe when the first run would start: the authors of a team take turns."""
        if self.config is None:
            return present_wait(self.capacity)
        now, (queue, gpus) = timezone.now(), self.place
        newcomer = Run(
            team_id=self.request.team.pk,
            author_id=self.request.author.pk,
            queue=queue,
            gpus=gpus,
            queued_at=now,
            priority=self.request.scheduling.priority,
            memory=estimates.needed_memory(self.config, gpus),
            memory_without_gpu=estimates.memory_without_gpu(self.config, gpus),
            config=self.config.model_dump(mode="json"),
        )
        return expected_wait(newcomer, self.capacity, now)

    @cached_property
    def warnings(self) -> list[str]:
        """Warnings about valid but surprising settings."""
        texts = (text for config in self.configs for text in summary.warnings(config, self.capacity, self.place[0]))
        return list(dict.fromkeys(texts))

    @cached_property
    def figures(self) -> list[estimates.Figure]:
        """Estimate of one of the runs from recorded runs that the author may read; empty for invalid settings."""
        if self.config is None:
            return []
        queue, gpus = self.place
        on_gpu = self.config.policy.device == "cuda" or (gpus > 0 and queue in self.capacity.with_gpus)
        return estimates.figures(self.request.author, self.config, gpu=on_gpu)


def _without_seeds(request: LaunchRequest) -> list[RunConfig]:
    """Return the configurations of a request without their repetitions with other seeds."""
    if request.config is None:
        return []
    runs = [run.config for run in request.runs]
    return [config for config in runs if config.seed == runs[0].seed] or [request.config]


def plan_launch(request: LaunchRequest, readable: QuerySet[Run]) -> LaunchPlan:
    """Check a request and plan its runs.

    Args:
        readable: runs that the author may read as a member of their teams.
    """
    config, errors, runs = request.config, dict(request.errors), request.runs
    problems: dict[str, str] = {}
    for arm_config in _without_seeds(request):
        problems = allowed_inputs.problems(arm_config, readable) | problems
    if problems:
        config, errors = None, errors | problems
    if config is not None and not runs:
        try:
            runs = experiment.plan(config, request.preset, request.arms, request.seeds)
        except ExperimentRefused as refusal:
            errors[refusal.field] = str(refusal)
    return LaunchPlan(request, config, runs, errors, capacity_now(database_now()))


@transaction.atomic
def do_launch(plan: LaunchPlan) -> list[Run]:
    """Request the models that have to be downloaded, and create all runs of a plan, or none.

    Raises:
        PermissionDenied: the author may not use the priority.
        RequestRefused: the plan has errors, or a model cannot be downloaded.
        QuotaExceeded: a quota of runs or of models is reached.
    """
    request = plan.request
    if plan.config is None or plan.errors:
        raise RequestRefused("; ".join(f"{name}: {text}" for name, text in plan.errors.items()))
    require_may_prefer(request.author, request.team.pk, request.scheduling.priority)
    for model, worker in plan.downloads.items():
        model_requests.do_request_download(request.author, model, worker)
    if len(plan.runs) > 1 or request.grouped:
        group = request.group or free_name(request.team, plan.group)
        key = (request.key or ids.token())[:KEY_LENGTH]
        new = [RunRequest(run.config, run.preset, f"{key}.{at}") for at, run in enumerate(plan.runs)]
    else:
        group = request.group
        new = [RunRequest(run.config, run.preset, request.key) for run in plan.runs]
    return do_create_runs(
        request.team,
        request.author,
        new,
        scheduling=request.scheduling,
        visibility=request.visibility,
        group=group,
    )
