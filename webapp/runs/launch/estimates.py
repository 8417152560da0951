"""Estimates of a configuration's tokens, time, memory and cost, from recorded runs where available.

Each figure has a sentence on its basis; unknown quantities are reported as "unknown".
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from django.db.models import Count, F, Max, Sum
from django.db.models.fields.json import KT

from trainer.config.imitation import mean_batch
from trainer.config.run import LEARNING_BY_SAMPLING, POCKET, RunConfig
from trainer.memory import estimate
from trainer.memory.advice import gigabytes, parts_as_text
from webapp.core import formatting
from webapp.runs.inputs.model_shapes import model_shape
from webapp.runs.models import Evaluation, MetricPoint, Run

MAX_RECORDED_RUNS = 40
MIN_ROWS = 16
"""Parallel trajectories below which a rollout becomes slow."""
MIN_RANGE, RANGE_EXPONENT = 1.5, 0.25
"""Range of a time that was scaled from another size: 1.5 · (ratio of the sizes) ** 0.25."""
GIB = 2**30
HOSTED_TRAINER_BYTES = GIB
"""Memory of a trainer that uses a hosted model."""
DEMO_ITERATION, DEMO_TRAJECTORIES, DEMO_EVALUATION, DEMO_PROMPTS = 8.1, 128, 4.4, 256
"""Seconds of an iteration and of an evaluation of the pocket policy on two idle cores (docs/performance.md)."""


@dataclass(frozen=True)
class Figure:
    """An estimate as text, and its basis."""

    title: str
    value: str
    how: str


@dataclass(frozen=True)
class RecordedPace:
    """Pace of a model on a device, from the recorded runs of models of one size.

    Attributes:
        runs: number of those runs.
        sampling, learning: seconds per sampled token, and per token of an update. What no run has recorded follows from
            the other one by `LEARNING_BY_SAMPLING`.
        parameters: of the models of those runs; 0 = the same model.
        range: factor by which the true time may be shorter or longer; 1 = as precise as the runs repeat.
    """

    device: str
    runs: int
    sampling: float
    learning: float
    parameters: int = 0
    range: float = 1.0


@dataclass(frozen=True)
class RecordedWork:
    """Tokens and seconds of a recorded run's rollouts and evaluations, and of what it learned from; 0 = none.

    Attributes:
        parameters: of its model.
        learned, learning_seconds: of updates and of steps on demonstrations.
        per_trajectory: mean sampled tokens of a trajectory; 0 = none was sampled, or not counted.
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


@dataclass(frozen=True)
class TokenLengths:
    """Tokens of a trajectory and of a demonstration in recorded runs; None = not recorded."""

    trajectory: float | None
    demonstration: float | None


def figures(user: Any, config: RunConfig, *, gpu: bool = False) -> list[Figure]:
    """Tokens, time and memory of the configuration. Three queries.

    Args:
        gpu: whether the run would get a GPU.
    """
    if config.hosted.url:
        return _hosted(config)
    recorded = recorded_work(user)
    parameters = max((work.parameters for work in recorded if work.model == config.policy.model), default=0)
    shape = model_shape(config.policy.model, config.policy.revision)
    paces = _paces(recorded, config.policy.model, shape.parameters if shape else parameters)
    lengths = token_lengths(recorded, config)
    return [
        _tokens(config, lengths.trajectory),
        *_times(config, paces, lengths),
        _memory(config, parameters, gpu=gpu),
    ]


def _hosted(config: RunConfig) -> list[Figure]:
    """Estimates for a hosted model: maximum of generated tokens, and their cost."""
    hosted, (_, evaluated) = config.hosted, _trajectories(config)
    generated = evaluated * config.rollout.max_turns * config.rollout.max_response_tokens
    estimates = [_tokens(config, None), Figure("Time", "unknown", f"Depends on {hosted.host}.")]
    if hosted.completion_price_per_million:
        how = (
            f"At {hosted.completion_price_per_million:g} per million tokens. Prompt tokens are extra; hosted.max_cost "
            "limits the total."
        )
        return [
            *estimates,
            Figure(
                "Cost of generated tokens", f"at most {generated * hosted.completion_price_per_million / 1e6:,.2f}", how
            ),
        ]
    return [
        *estimates,
        Figure(
            "Cost", "unknown", "hosted.prompt_price_per_million and hosted.completion_price_per_million are not set."
        ),
    ]


def recorded_work(user: Any) -> list[RecordedWork]:
    """Work of the newest runs of the user's teams. Three queries."""
    runs = {
        run["pk"]: run
        for run in Run.objects.of_teams_of(user)
        .filter(imported=False, parameters__gt=0, config__kind__in=("train", "sft", "evaluate"))
        .exclude(device="")
        .order_by("-created_at")
        .annotate(model=KT("config__policy__model"), kind=KT("config__kind"))
        .annotate(waves=F("config__rollout__groups"), size=F("config__rollout__group_size"))
        .annotate(batch=F("config__sft__batch"), demonstrations=F("config__sft__demonstrations"))
        .values(
            "pk",
            "model",
            "kind",
            "environment",
            "device",
            "parameters",
            "waves",
            "size",
            "batch",
            "demonstrations",
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
    """Work of one run.

    Args:
        points: total and number of a metric's values, its newest iteration, and the run's tokens and seconds at that
            time, by name.
        suites: tokens and trajectories of its evaluations.
    """
    sampled = seconds = learned = learning = demonstrated = 0.0
    trajectories = steps = 0
    if warmup := points.get("time/warmup"):  # its tokens are the first that the run counts
        demonstrated, steps, learning = float(warmup["tokens"] or 0), warmup["number"], warmup["total"]
    if update := points.get("time/update"):
        learned, learning = float(update["tokens"] or 0) - demonstrated, learning + update["total"]
    if update and run["kind"] == "sft":
        demonstrated, learned, steps = learned, 0.0, update["newest"]
    if run["kind"] == "train" and (newest := points.get("time/rollout") or points.get("reward/mean")):
        sampled = float(newest["tokens"]) - demonstrated
        trajectories = newest["newest"] * (run["waves"] or 1) * (run["size"] or 1)
        seconds = newest["total"]
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
    )


def token_lengths(recorded: Sequence[RecordedWork], config: RunConfig) -> TokenLengths:
    """Median tokens of a trajectory in runs with the same model, and of a demonstration in runs in the environment.

    The policy of a run of kind sft plays as it was shown.
    """
    played = [work.per_trajectory for work in recorded if work.per_trajectory and work.model == config.policy.model]
    shown = [
        work.per_demonstration
        for work in recorded
        if work.per_demonstration and work.environment == config.environment.name
    ]
    demonstration = median(shown) if shown else None
    if config.kind == "sft":
        return TokenLengths(demonstration, demonstration)
    return TokenLengths(median(played) if played else None, demonstration)


def _paces(recorded: Sequence[RecordedWork], model: str, parameters: int) -> list[RecordedPace]:
    """Paces of the model by device, that with most runs first; where it has not run, of the model nearest in size."""
    paces = []
    for device in dict.fromkeys(work.device for work in recorded):
        there = [work for work in recorded if work.device == device]
        same = [work for work in there if work.model == model]
        if not same and parameters:
            nearest = min(there, key=lambda work: abs(math.log(work.parameters / parameters))).parameters
            same = [work for work in there if work.parameters == nearest]
        if same and (pace := _pace(same, model, parameters)):
            paces.append(pace)
    return sorted(paces, key=lambda pace: (pace.parameters > 0, pace.range, -pace.runs))


def _pace(works: Sequence[RecordedWork], model: str, parameters: int) -> RecordedPace | None:
    """The median pace of these runs on one device, scaled to so many parameters unless they are of the model."""
    sampling = [work.sampling_seconds / work.sampled for work in works if work.sampled and work.sampling_seconds]
    learning = [work.learning_seconds / work.learned for work in works if work.learned]
    if not sampling and not any(learning):
        return None
    own, size = works[0].model == model, works[0].parameters
    scale = 1.0 if own else parameters / size
    factor = 1.0 if own else MIN_RANGE * max(scale, 1 / scale) ** RANGE_EXPONENT
    if not (sampling and learning):
        factor = max(factor, MIN_RANGE)
    sampled = median(sampling) if sampling else median(learning) / LEARNING_BY_SAMPLING
    learned = median(learning) if learning else sampled * LEARNING_BY_SAMPLING
    return RecordedPace(works[0].device, len(works), scale * sampled, scale * learned, 0 if own else size, factor)


def evaluations(config: RunConfig) -> int:
    """Number of evaluations of a run: before, at the configured interval, after; also before a warm-up and within."""
    if config.evaluation.prompts == 0:
        return 0
    if config.kind == "evaluate":
        return 1
    every, steps = config.evaluation.every, config.warmup_steps
    within = sum((length - 1) // every for length in (steps, config.iterations) if length) if every else 0
    return 2 + bool(steps) + within


def _trajectories(config: RunConfig) -> tuple[int, int]:
    """Numbers of trajectories in rollouts and in evaluations."""
    suites = len(config.environment.names) + len(config.evaluation.suites)
    evaluated = evaluations(config) * suites * config.evaluation.prompts * config.evaluation.samples_per_prompt
    return (config.iterations * config.rollout.trajectories if config.kind == "train" else 0), evaluated


def _tokens(config: RunConfig, each: float | None) -> Figure:
    trained, evaluated = _trajectories(config)
    rounds = config.algorithm.dynamic_sampling_rounds if config.kind == "train" else 1
    limit = rounds * trained + evaluated
    most = limit * config.rollout.max_turns * config.rollout.max_response_tokens
    played = formatting.plural(trained + evaluated, "trajectory", "trajectories")
    if limit > trained + evaluated:
        played += f" (up to {limit:,} with dynamic sampling)"
    if each is not None and config.kind != "sft":
        likely = min(most, (trained + evaluated) * each)
        bound = f"at most {formatting.large(most)}"
        how = f"{played} of {each:,.0f} tokens, the median of recorded runs with this model; {bound}."
        return Figure("Sampled tokens", f"about {formatting.large(likely)}", how)
    return Figure("Sampled tokens", f"at most {formatting.large(most)}", f"{played}, each turn at its token limit.")


def _times(config: RunConfig, paces: Sequence[RecordedPace], lengths: TokenLengths) -> list[Figure]:
    if paces:
        steps = config.warmup_steps
        warmup = f" Includes {formatting.plural(steps, 'step')} on demonstrations." if steps else ""
        return [
            Figure(
                f"Time on {pace.device}",
                _duration(_seconds(config, pace, lengths), pace.range),
                _basis(pace) + warmup,
            )
            for pace in paces[:3]
        ]
    if config.policy.model == POCKET and config.kind != "sft":
        how = (
            f"From the demo on two idle CPU cores: {DEMO_ITERATION} s for {DEMO_TRAJECTORIES} trajectories with two "
            f"updates, {DEMO_EVALUATION} s for {DEMO_PROMPTS} prompts. There are no recorded runs here yet."
        )
        return [Figure("Time", f"about {formatting.duration(_demo_seconds(config))}", how)]
    return [Figure("Time", "unknown on this device", "There are no recorded runs here yet.")]


def _duration(seconds: float, factor: float) -> str:
    """For example “about 10 min (5 min to 20 min)”."""
    about = f"about {formatting.duration(seconds)}"
    if factor == 1:
        return about
    return f"{about} ({formatting.duration(seconds / factor)} to {formatting.duration(seconds * factor)})"


def _basis(pace: RecordedPace) -> str:
    runs = formatting.plural(pace.runs, "recorded run")
    speeds = f"{1 / pace.sampling:,.0f} tokens/s sampled"
    if pace.learning:
        speeds += f", {1 / pace.learning:,.0f} tokens/s learned"
    if not pace.parameters:
        return f"Median of {runs}: {speeds}."
    size = f"{formatting.large(pace.parameters)} parameters"
    return f"{runs} of a model with {size}, scaled to the size of this one: {speeds}."


def expected_seconds(user: Any, configs: Sequence[RunConfig]) -> float | None:
    """Time of these runs one after the other, on the device with most recorded runs; None if one is unknown.

    Three queries, and those that find the size of each model.
    """
    return seconds_given(recorded_work(user), configs)


def seconds_given(recorded: Sequence[RecordedWork], configs: Sequence[RunConfig]) -> float | None:
    """Time of these runs one after the other, given recorded work; None if one is unknown."""
    paces: dict[str, list[RecordedPace]] = {}
    total = 0.0
    for config in configs:
        model = config.policy.model
        if config.hosted.url:
            return None
        if model not in paces:
            shape = model_shape(model, config.policy.revision)
            paces[model] = _paces(recorded, model, shape.parameters if shape else 0)
        if paces[model]:
            total += _seconds(config, paces[model][0], token_lengths(recorded, config))
        elif model == POCKET and config.kind != "sft":
            total += _demo_seconds(config)
        else:
            return None
    return total


def _seconds(config: RunConfig, pace: RecordedPace, lengths: TokenLengths) -> float:
    """Time of a run: its sampled tokens, and those of its updates and of its steps on demonstrations.

    Without recorded lengths, every turn is as long as allowed.
    """
    trained, evaluated = _trajectories(config)
    longest = float(config.rollout.max_turns * config.rollout.max_response_tokens)
    played, shown = (
        longest if length is None else min(length, longest) for length in (lengths.trajectory, lengths.demonstration)
    )
    steps = config.iterations if config.kind == "sft" else config.warmup_steps
    learned = played * trained + shown * steps * config.sft.mean_batch
    return played * (trained + evaluated) * pace.sampling + learned * pace.learning


def _demo_seconds(config: RunConfig) -> float:
    trained, evaluated = _trajectories(config)
    return trained * DEMO_ITERATION / DEMO_TRAJECTORIES + evaluated * DEMO_EVALUATION / DEMO_PROMPTS


def _memory(config: RunConfig, recorded: int, *, gpu: bool) -> Figure:
    """The trainer's own estimate before it loads the model (trainer/memory/estimate.py)."""
    shape = model_shape(config.policy.model, config.policy.revision, look_up=True)
    if shape is None and recorded:
        weights = estimate.width_of(config) * recorded
        return Figure("Memory", f"more than {gigabytes(weights)}", "Weights only, from a recorded run.")
    if shape is None:
        return Figure("Memory", "unknown", "The size of this model is unknown before its first run.")
    estimated = estimate.estimate_memory(config, shape, gpu=gpu)
    minimum = needed_memory(config, int(gpu))
    fewer = (
        f" {gigabytes(minimum)} suffice with fewer parallel trajectories."
        if minimum is not None and minimum < 0.95 * estimated.peak
        else ""
    )
    return Figure(
        "Memory",
        f"about {gigabytes(estimated.peak)}",
        f"On a {'GPU' if gpu else 'CPU'}, peak {estimate.STAGES[estimated.worst]}: {parts_as_text(estimated)}.{fewer}",
    )


def needed_memory(config: RunConfig, gpus: int) -> int | None:
    """Minimum memory of the run in bytes, over all its GPUs, or of the machine; None if the model's size is unknown.

    Counts few parallel trajectories: those that do not fit are played one after the other. Also None where Ray actors
    do all the work: the trainer compares them with the memory of their nodes.
    """
    if not config.cluster.driver_computes(config.kind):
        return None
    if config.hosted.url:
        return HOSTED_TRAINER_BYTES
    shape = model_shape(config.policy.model, config.policy.revision)
    if shape is None:
        return None
    processes = max(1, gpus)
    rows = min(MIN_ROWS, estimate.played_at_once(config, processes))
    return processes * estimate.estimate_memory(config, shape, gpu=gpus > 0, rows=rows, processes=processes).peak


def memory_without_gpu(config: RunConfig, gpus: int) -> int | None:
    """As `needed_memory`, on a worker without GPUs; None if the run needs its GPUs there, or requests none."""
    return needed_memory(config, 0) if gpus == 1 and config.policy.device != "cuda" else None
