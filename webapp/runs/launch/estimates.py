"""Estimates of a configuration's tokens, time, memory and cost, from recorded runs where available.

Each figure has a sentence on its basis; unknown quantities are reported as "unknown".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from django.db.models import F, OuterRef, Subquery

from trainer.config.run import POCKET, RunConfig
from trainer.memory import estimate
from trainer.memory.advice import gigabytes, parts_as_text
from webapp.core import formatting
from webapp.runs.inputs.model_shapes import model_shape
from webapp.runs.models import MetricPoint, Run

MAX_RECORDED_RUNS = 40
MIN_ROWS = 16
"""Parallel trajectories below which a rollout becomes slow."""
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
    """Median pace of the recorded runs with the same model on a device."""

    device: str
    runs: int
    seconds_per_token: float
    tokens_per_trajectory: float


def figures(user: Any, config: RunConfig, *, gpu: bool = False) -> list[Figure]:
    """Tokens, time and memory of the configuration. One query.

    Args:
        gpu: whether the run would get a GPU.
    """
    if config.hosted.url:
        return _hosted(config)
    recorded = list(_recorded(user, config.policy.model))
    paces = _paces(recorded)
    parameters = max((run.parameters for run in recorded), default=0)
    return [_tokens(config, paces), *_times(config, paces), _memory(config, parameters, gpu=gpu)]


def _hosted(config: RunConfig) -> list[Figure]:
    """Estimates for a hosted model: maximum of generated tokens, and their cost."""
    hosted, (_, evaluated) = config.hosted, _trajectories(config)
    generated = evaluated * config.rollout.max_turns * config.rollout.max_response_tokens
    estimates = [_tokens(config, []), Figure("Time", "unknown", f"Depends on {hosted.host}.")]
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


def _recorded(user: Any, model: str) -> Any:
    newest = MetricPoint.objects.filter(run=OuterRef("pk"), name="reward/mean").order_by("-iteration")
    return (
        Run.objects.of_teams_of(user)
        .filter(config__policy__model=model, config__kind="train", iteration__gt=0)
        .exclude(device="")
        .annotate(
            tokens=Subquery(newest.values("tokens")[:1]),
            seconds=Subquery(newest.values("seconds")[:1]),
            measured=Subquery(newest.values("iteration")[:1]),
        )
        .annotate(waves=F("config__rollout__groups"), size=F("config__rollout__group_size"))
        .only("device", "parameters")
        .order_by("-created_at")[:MAX_RECORDED_RUNS]
    )


def _paces(recorded: list[Any]) -> list[RecordedPace]:
    by_device: dict[str, list[Any]] = {}
    for run in recorded:
        if run.tokens and run.seconds and run.measured:
            by_device.setdefault(run.device, []).append(run)
    return [
        RecordedPace(
            device,
            len(runs),
            median(run.seconds / run.tokens for run in runs),
            median(run.tokens / (run.measured * max(1, (run.waves or 1) * (run.size or 1))) for run in runs),
        )
        for device, runs in by_device.items()
    ]


def evaluations(config: RunConfig) -> int:
    """Number of evaluations of a run: before, at the configured interval, after."""
    if config.evaluation.prompts == 0:
        return 0
    if config.kind == "evaluate":
        return 1
    every = config.evaluation.every
    return 2 + ((config.iterations - 1) // every if every else 0)


def _trajectories(config: RunConfig) -> tuple[int, int]:
    """Numbers of trajectories in rollouts and in evaluations."""
    suites = len(config.environment.names) + len(config.evaluation.suites)
    evaluated = evaluations(config) * suites * config.evaluation.prompts * config.evaluation.samples_per_prompt
    return (config.iterations * config.rollout.trajectories if config.kind == "train" else 0), evaluated


def _tokens(config: RunConfig, paces: list[RecordedPace]) -> Figure:
    trained, evaluated = _trajectories(config)
    rounds = config.algorithm.dynamic_sampling_rounds if config.kind == "train" else 1
    limit = rounds * trained + evaluated
    most = limit * config.rollout.max_turns * config.rollout.max_response_tokens
    played = formatting.plural(trained + evaluated, "trajectory", "trajectories")
    if limit > trained + evaluated:
        played += f" (up to {limit:,} with dynamic sampling)"
    if paces:
        each = median(pace.tokens_per_trajectory for pace in paces)
        likely = min(most, (trained + evaluated) * each)
        how = f"{played} of {each:,.0f} tokens, the median of recorded runs with this model; at most {_short(most)}."
        return Figure("Sampled tokens", f"about {_short(likely)}", how)
    return Figure("Sampled tokens", f"at most {_short(most)}", f"{played}, each turn at its token limit.")


def _times(config: RunConfig, paces: list[RecordedPace]) -> list[Figure]:
    trained, evaluated = _trajectories(config)
    if config.kind == "sft":
        return [Figure("Time", "unknown", "There are no estimates for supervised fine-tuning.")]
    if paces:
        trajectories = trained + evaluated
        return [
            Figure(
                f"Time on {pace.device}",
                f"about {formatting.duration(trajectories * pace.tokens_per_trajectory * pace.seconds_per_token)}",
                f"Median of {formatting.plural(pace.runs, 'recorded run')}: {1 / pace.seconds_per_token:,.0f} tokens/s "
                "with updates and evaluations.",
            )
            for pace in sorted(paces, key=lambda pace: -pace.runs)[:3]
        ]
    if config.policy.model == POCKET:
        seconds = trained * DEMO_ITERATION / DEMO_TRAJECTORIES + evaluated * DEMO_EVALUATION / DEMO_PROMPTS
        how = (
            f"From the demo on two idle CPU cores: {DEMO_ITERATION} s for {DEMO_TRAJECTORIES} trajectories with two "
            f"updates, {DEMO_EVALUATION} s for {DEMO_PROMPTS} prompts. There are no recorded runs here yet."
        )
        return [Figure("Time", f"about {formatting.duration(seconds)}", how)]
    return [Figure("Time", "unknown on this device", "There are no recorded runs with this model yet.")]


def expected_seconds(user: Any, configs: Sequence[RunConfig]) -> float | None:
    """Time of these runs one after the other, on the device with most recorded runs; None if one is unknown.

    One query for each model.
    """
    paces: dict[str, list[RecordedPace]] = {}
    total = 0.0
    for config in configs:
        model = config.policy.model
        if model not in paces:
            paces[model] = _paces(list(_recorded(user, model)))
        seconds = None if config.hosted.url or config.kind == "sft" else _seconds(config, paces[model])
        if seconds is None:
            return None
        total += seconds
    return total


def _seconds(config: RunConfig, paces: Sequence[RecordedPace]) -> float | None:
    trained, evaluated = _trajectories(config)
    if paces:
        pace = max(paces, key=lambda pace: pace.runs)
        return (trained + evaluated) * pace.tokens_per_trajectory * pace.seconds_per_token
    if config.policy.model == POCKET:
        return trained * DEMO_ITERATION / DEMO_TRAJECTORIES + evaluated * DEMO_EVALUATION / DEMO_PROMPTS
    return None


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


def requested_memory(config: RunConfig, gpus: int) -> dict[str, int | None]:
    """The fields of a queued run with its memory: with its GPUs, and without any where it can run so."""
    without = needed_memory(config, 0) if gpus == 1 and config.policy.device != "cuda" else None
    return {"memory": needed_memory(config, gpus), "memory_without_gpu": without}


def _short(number: float) -> str:
    if number >= 1e6:
        return f"{number / 1e6:,.1f} million"
    return f"{number:,.0f}" if number < 1e4 else f"{number / 1e3:,.0f} thousand"
