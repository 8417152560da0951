"""Tokens and seconds of recorded runs, and the lengths of trajectories that they predict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from django.db.models import Count, F, Max, Sum
from django.db.models.fields.json import KT
from pydantic import ValidationError

from trainer.config.algorithm import AlgorithmConfig
from trainer.config.imitation import mean_batch
from trainer.config.removed import without_removed
from trainer.config.run import RunConfig
from webapp.runs.models import Evaluation, MetricPoint, Run

MAX_RECORDED_RUNS = 40


@dataclass(frozen=True)
class RecordedWork:
    """Tokens and seconds of a recorded run's rollouts, evaluations and updates; 0 = none.

    Attributes:
        parameters: size of its model.
        learned, learning_seconds: work of updates and of steps on demonstrations; a token counts once in each pass.
        per_trajectory: mean sampled tokens of a trajectory; 0 = none was sampled, or not counted.
        allowed: limit of the tokens of a trajectory.
        per_demonstration: mean tokens of a demonstration that are learned; 0 = none.
    """

    model: str
    environment: str
    device: str
    parameters: int
    sampled: float
    sampling_seconds: float
    learned: float
    learning_seconds: float
    per_trajectory: float
    per_demonstration: float
    allowed: int


@dataclass(frozen=True)
class TokenLengths:
    """Expected tokens of a trajectory and of a demonstration; None = no recorded value.

    Attributes:
        basis: the recorded runs from which the length of a trajectory follows, and how.
    """

    trajectory: float | None
    demonstration: float | None
    basis: str = ""


def recorded_work(user: Any) -> list[RecordedWork]:
    """Return the work of the newest runs of the user's teams. Three queries."""
    runs = {
        run["pk"]: run
        for run in Run.objects.listed_for(user)
        .filter(imported=False, parameters__gt=0, config__kind__in=("train", "sft", "evaluate"))
        .exclude(device="")
        .order_by("-created_at")
        .annotate(model=KT("config__policy__model"), kind=KT("config__kind"))
        .annotate(waves=F("config__rollout__groups"), size=F("config__rollout__group_size"))
        .annotate(turns=F("config__rollout__max_turns"), response=F("config__rollout__max_response_tokens"))
        .annotate(batch=F("config__sft__batch"), demonstrations=F("config__sft__demonstrations"))
        .annotate(algorithm=F("config__algorithm"))
        .values(
            "pk",
            "model",
            "kind",
            "environment",
            "device",
            "parameters",
            "waves",
            "size",
            "turns",
            "response",
            "batch",
            "demonstrations",
            "algorithm",
        )[:MAX_RECORDED_RUNS]
    }
    points: dict[int, dict[str, Mapping[str, Any]]] = defaultdict(dict)
    names = ("time/rollout", "time/update", "time/warmup", "time/evaluate", "reward/mean")
    measured = MetricPoint.objects.filter(run__in=list(runs), name__in=names).values("run", "name")
    for point in measured.annotate(
        total=Sum("value"), number=Count("pk"), newest=Max("iteration"), tokens=Max("tokens"), worked=Max("seconds")
    ):
        points[point["run"]][point["name"]] = point
    trajectories = F("prompts") * F("samples")
    tokens = trajectories * F("mean_turns") * F("mean_response")
    evaluated = Evaluation.objects.filter(run__in=list(runs)).values("run")
    suites = {
        row["run"]: row for row in evaluated.annotate(sampled=Sum(tokens), played=Sum(trajectories)) if row["sampled"]
    }
    return [work for pk, run in runs.items() if (work := _work(run, points[pk], suites.get(pk)))]


def _work(
    run: Mapping[str, Any], points: Mapping[str, Mapping[str, Any]], suites: Mapping[str, Any] | None
) -> RecordedWork | None:
    """Return the work of one run; None without any.

    Args:
        points: total and number of a metric's values, its newest iteration, and the tokens and seconds then, by name.
        suites: tokens and trajectories of its evaluations.
    """
    sampled = seconds = learned = learning = demonstrated = 0.0
    trajectories = steps = 0
    if warmup := points.get("time/warmup"):  # the first tokens that the run counts
        demonstrated, steps, learning = float(warmup["tokens"] or 0), warmup["number"], warmup["total"]
    if update := points.get("time/update"):
        learned, learning = float(update["tokens"] or 0) - demonstrated, learning + update["total"]
    if update and run["kind"] == "sft":
        demonstrated, learned, steps = learned, 0.0, update["newest"]
    if run["kind"] == "train" and (newest := points.get("time/rollout") or points.get("reward/mean")):
        sampled = float(newest["tokens"]) - demonstrated
        trajectories = newest["newest"] * (run["waves"] or 1) * (run["size"] or 1)
        seconds = newest["total"]
        learned *= _passes(run["algorithm"])
        if newest["name"] != "time/rollout":  # a journal without times of phases: all of its time per token
            seconds, learned, learning = newest["worked"], sampled, 0.0
    if suites and (evaluation := points.get("time/evaluate")):
        sampled, seconds = sampled + suites["sampled"], seconds + evaluation["total"]
        trajectories += suites["played"]
    rows = mean_batch(run["demonstrations"] or 1, run["batch"] or 1)
    if not sampled and not demonstrated:
        return None
    return RecordedWork(
        model=run["model"],
        environment=run["environment"],
        device=run["device"],
        parameters=run["parameters"],
        sampled=sampled,
        sampling_seconds=seconds,
        learned=learned + demonstrated,
        learning_seconds=learning,
        per_trajectory=sampled / max(1, trajectories) if run["kind"] != "sft" else 0.0,
        per_demonstration=demonstrated / max(1.0, steps * rows),
        allowed=(run["turns"] or 0) * (run["response"] or 0),
    )


def _passes(algorithm: Any) -> float:
    """Return the passes of an update over a sampled token in a recorded run; 1 if its settings are no longer valid."""
    try:
        return AlgorithmConfig.model_validate(without_removed({"algorithm": algorithm})["algorithm"]).passes
    except ValidationError:
        return 1.0


def token_lengths(recorded: Sequence[RecordedWork], config: RunConfig) -> TokenLengths:
    """Return the median tokens of a trajectory, and of a demonstration in runs in the environment.

    Trajectories are taken from runs of the model in the environment with these limits. For runs with other limits, or
    else with other models, the median share of the limit is used. Other environments are ignored, since their episodes
    have other lengths. The policy of a run of kind sft plays like its demonstrations.
    """
    shown = [
        work.per_demonstration
        for work in recorded
        if work.per_demonstration and work.environment == config.environment.name
    ]
    demonstration = median(shown) if shown else None
    if config.kind == "sft":
        return TokenLengths(demonstration, demonstration)
    model, environment = config.policy.model, config.environment.name
    limit = config.rollout.max_turns * config.rollout.max_response_tokens
    played = [work for work in recorded if work.per_trajectory and work.environment == environment]
    of_model = [work for work in played if work.model == model]
    if same := [work.per_trajectory for work in of_model if work.allowed == limit]:
        return TokenLengths(
            median(same), demonstration, f"the median of recorded runs with this model in {environment}"
        )
    shares = [min(1.0, work.per_trajectory / work.allowed) for work in of_model or played if work.allowed]
    if not shares:
        return TokenLengths(None, demonstration)
    whose = "with other limits" if of_model else "with other models"
    basis = f"the share of the limit that recorded runs {whose} used in {environment}"
    return TokenLengths(median(shares) * limit, demonstration, basis)
