"""Estimates of a configuration's tokens, time, memory and cost, from recorded runs where available.

Each figure comes with a sentence about its basis; unknown quantities are reported as "unknown".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from trainer.config.run import LEARNING_BY_SAMPLING, POCKET, START_SECONDS, RunConfig
from trainer.memory import estimate
from trainer.memory.advice import gigabytes, parts_as_text
from webapp.core import formatting
from webapp.runs.inputs.model_shapes import model_shape
from webapp.runs.launch.recorded_work import RecordedWork, TokenLengths, recorded_work, token_lengths
from webapp.runs.summaries import length_text

MIN_ROWS = 16
"""Parallel trajectories below which a rollout becomes slow."""
MIN_RANGE, RANGE_EXPONENT = 1.5, 0.25
"""Range of a time scaled from another size: 1.5 · (ratio of the times) ** 0.25."""
CPU_OVERHEAD, GPU_OVERHEAD = (3e6, 3e6), (1.5e9, 0.5e9)
"""Number of parameters whose arithmetic takes as long as the rest of a token's work, sampled and learned: steps of a
small model wait for kernel calls, the environment and memory.

On CPUs from the pocket policy and SmolLM2-135M, on GPUs for the shapes of Qwen2.5-0.5B and 1.5B (docs/performance.md).
"""
HOSTED_TRAINER_BYTES = 2**30
"""Memory of a trainer that uses a hosted model."""
DEMO = RecordedWork(
    model=POCKET,
    environment="Sokoban",
    device="CPU",
    parameters=960_896,
    sampled=15_752,
    sampling_seconds=4.4,
    learned=15_752,
    learning_seconds=6.5,
    per_trajectory=123,
    per_demonstration=0,
    allowed=480,
)
"""An iteration of the demo on two idle cores without AMX (docs/performance.md), used if no run is recorded."""


@dataclass(frozen=True)
class Figure:
    """An estimate as text, and a sentence about its basis."""

    title: str
    value: str
    how: str


@dataclass(frozen=True)
class RecordedPace:
    """Pace of a model on a device, from recorded runs of models of the same size.

    Attributes:
        runs: number of the recorded runs; 0 = the demo instead.
        sampling, learning: seconds per sampled token, and per token of an update. If one of them was not recorded, it
            follows from the other one by `LEARNING_BY_SAMPLING`.
        parameters: parameters of the recorded models; 0 = the same model.
        range: factor by which the true time may be shorter or longer; 1 = as precise as the runs repeat.
    """

    device: str
    runs: int
    sampling: float
    learning: float
    parameters: int = 0
    range: float = 1.0


def figures(user: Any, config: RunConfig, *, gpu: bool = False) -> list[Figure]:
    """Estimate tokens, time and memory of the configuration. Three queries.

    Args:
        gpu: True if the run would get a GPU.
    """
    if config.hosted.url:
        return _hosted(config)
    recorded = _or_demo(recorded_work(user), config, gpu=gpu)
    parameters = max((work.parameters for work in recorded if work.model == config.policy.model), default=0)
    shape = model_shape(config.policy.model, config.policy.revision)
    paces = _paces(recorded, config.policy.model, shape.parameters if shape else parameters)
    lengths = token_lengths(recorded, config)
    if DEMO in recorded and config.environment.name == DEMO.environment and lengths.trajectory is not None:
        lengths = replace(lengths, basis="the share of the limit that the demo uses")
    return [
        _tokens(config, lengths),
        *_times(config, paces, lengths),
        _memory(config, parameters, gpu=gpu),
    ]


def _or_demo(recorded: Sequence[RecordedWork], config: RunConfig, *, gpu: bool) -> Sequence[RecordedWork]:
    """Return the recorded work, with the demo where nothing is closer: on a GPU only the pocket policy is comparable.

    The pace of a real model says nothing about the pocket policy, which is a hundredth of its size.
    """
    on_gpu, pocket = gpu or config.policy.device == "cuda", config.policy.model == POCKET
    if pocket and not on_gpu and all(work.model != POCKET for work in recorded):
        return [*recorded, DEMO]
    return recorded or ([] if on_gpu and not pocket else [DEMO])


def _hosted(config: RunConfig) -> list[Figure]:
    """Estimate the maximum of generated tokens of a hosted model, and their cost."""
    hosted, (_, evaluated) = config.hosted, _trajectories(config)
    generated = evaluated * config.rollout.max_turns * config.rollout.max_response_tokens
    estimates = [_tokens(config, TokenLengths(None, None)), Figure("Time", "unknown", f"Depends on {hosted.host}.")]
    _, price = hosted.prices
    if price:
        how = f"At {price:g} per million tokens. Prompt tokens are extra; hosted.max_cost limits the total."
        return [*estimates, Figure("Cost of generated tokens", f"at most {generated * price / 1e6:,.2f}", how)]
    return [*estimates, Figure("Cost", "unknown", "hosted.price_per_million is not set.")]


def _paces(recorded: Sequence[RecordedWork], model: str, parameters: int) -> list[RecordedPace]:
    """Return the model's pace on each device, most runs first; else the pace of the nearest size."""
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
    """Return the median pace of these runs on one device, scaled to `parameters` unless they trained the same model."""
    sampling = [work.sampling_seconds / work.sampled for work in works if work.sampled and work.sampling_seconds]
    learning = [work.learning_seconds / work.learned for work in works if work.learned]
    if not sampling and not any(learning):
        return None
    same_model, size, device = works[0].model == model, works[0].parameters, works[0].device
    overheads = CPU_OVERHEAD if device.startswith("CPU") else GPU_OVERHEAD
    scales = [1.0 if same_model else (parameters + overhead) / (size + overhead) for overhead in overheads]
    factor = 1.0 if same_model else MIN_RANGE * max(max(scale, 1 / scale) for scale in scales) ** RANGE_EXPONENT
    if not (sampling and learning):
        factor = max(factor, MIN_RANGE)
    sampled = median(sampling) if sampling else median(learning) / LEARNING_BY_SAMPLING
    learned = median(learning) if learning else sampled * LEARNING_BY_SAMPLING
    runs = 0 if works[0] is DEMO else len(works)
    return RecordedPace(device, runs, scales[0] * sampled, scales[1] * learned, 0 if same_model else size, factor)


def evaluations(config: RunConfig) -> int:
    """Count the evaluations of a run: before and after training, at the configured interval, and around a warm-up."""
    if config.evaluation.prompts == 0:
        return 0
    if config.kind == "evaluate":
        return 1
    every, steps = config.evaluation.every, config.warmup_steps
    within = sum((length - 1) // every for length in (steps, config.iterations) if length) if every else 0
    return 2 + bool(steps) + within


def _trajectories(config: RunConfig) -> tuple[int, int]:
    """Return the numbers of trajectories in rollouts and in evaluations."""
    suites = len(config.environment.names) + len(config.evaluation.suites)
    evaluated = evaluations(config) * suites * config.evaluation.prompts * config.evaluation.samples_per_prompt
    return (config.iterations * config.rollout.trajectories if config.kind == "train" else 0), evaluated


def size_sentence(config: RunConfig) -> str:
    """Describe the size of a run: iterations, trajectories, and the upper limit of sampled tokens."""
    if config.kind == "sft":
        return length_text(config)
    trained, evaluated = _trajectories(config)
    played = formatting.plural(trained or evaluated, "trajectory", "trajectories")
    if trained and evaluated:
        played += f" and {evaluated:,} in evaluations"
    return f"{length_text(config)}: {played}, at most {formatting.large(_most_tokens(config))} sampled tokens"


def _most_tokens(config: RunConfig) -> int:
    """Return the maximum number of sampled tokens, with all rounds of dynamic sampling."""
    trained, evaluated = _trajectories(config)
    played = config.algorithm.dynamic_sampling_rounds * trained + evaluated
    return played * config.rollout.max_turns * config.rollout.max_response_tokens


def _tokens(config: RunConfig, lengths: TokenLengths) -> Figure:
    trained, evaluated = _trajectories(config)
    limit, most = config.algorithm.dynamic_sampling_rounds * trained + evaluated, _most_tokens(config)
    played = formatting.plural(trained + evaluated, "trajectory", "trajectories")
    if limit > trained + evaluated:
        played += f" (up to {limit:,} with dynamic sampling)"
    if lengths.trajectory is not None and config.kind != "sft":
        likely = min(most, (trained + evaluated) * lengths.trajectory)
        bound = f"at most {formatting.large(most)}"
        how = f"{played} of {lengths.trajectory:,.0f} tokens, {lengths.basis}; {bound}."
        return Figure("Sampled tokens", f"about {formatting.large(likely)}", how)
    how = f"{played}, each turn at its token limit.{_no_run_in(config)}"
    return Figure("Sampled tokens", f"at most {formatting.large(most)}", how)


def _no_run_in(config: RunConfig) -> str:
    """Explain why there is only an upper bound; empty for kinds that the recorded demonstrations predict."""
    if config.kind == "sft" or config.hosted.url:
        return ""
    return f" Unknown in this environment: no run in {config.environment.name} is recorded yet."


def _times(config: RunConfig, paces: Sequence[RecordedPace], lengths: TokenLengths) -> list[Figure]:
    if paces:
        steps, bounded = config.warmup_steps, lengths.trajectory is None and config.kind != "sft"
        warmup = f" Includes {formatting.plural(steps, 'step')} on demonstrations." if steps else ""
        return [
            Figure(
                f"Time on {pace.device}" if pace.runs else "Time",
                _at_most(_seconds(config, pace, lengths), pace.range)
                if bounded
                else _duration(_seconds(config, pace, lengths), pace.range),
                _basis(pace) + warmup + (_no_run_in(config) if bounded else ""),
            )
            for pace in paces[:3]
        ]
    return [Figure("Time", "unknown on this device", "There are no recorded runs here yet.")]


def _duration(seconds: float, factor: float) -> str:
    """Format a time, e.g. “about 10 min (5 min to 20 min)”."""
    about = f"about {formatting.duration(seconds)}"
    if factor == 1:
        return about
    return f"{about} ({formatting.duration(seconds / factor)} to {formatting.duration(seconds * factor)})"


def _at_most(seconds: float, factor: float) -> str:
    """Format an upper bound, e.g. “at most 20 min”."""
    return f"at most {formatting.duration(seconds * factor)}"


def _basis(pace: RecordedPace) -> str:
    runs = formatting.plural(pace.runs, "recorded run")
    speeds = f"{1 / pace.sampling:,.0f} tokens/s sampled"
    if pace.learning:
        speeds += f", {1 / pace.learning:,.0f} tokens/s learned"
    if not pace.runs:
        scaled = ", scaled to the size of this model" if pace.parameters else ""
        return f"From the demo on two idle CPU cores{scaled}: {speeds}. There are no recorded runs here yet."
    if not pace.parameters:
        return f"Median of {runs}: {speeds}."
    size = f"{formatting.large(pace.parameters)} parameters"
    return f"{runs} of a model with {size}, scaled to the size of this one: {speeds}."


@dataclass(frozen=True)
class ExpectedTime:
    """Time of one run, or of several one after the other.

    Attributes:
        at_most: True for an upper bound, because no run in one of the environments is recorded.
    """

    seconds: float
    at_most: bool = False

    @property
    def text(self) -> str:
        """E.g. “about 35 min”, “at most 2 h”."""
        return f"{'at most' if self.at_most else 'about'} {formatting.duration(self.seconds)}"


def expected_time(user: Any, configs: Sequence[RunConfig]) -> ExpectedTime | None:
    """Estimate the time of these runs one after another, on the device with most recorded runs; None if unknown.

    Three queries, and the queries that find the size of each model.
    """
    return time_given(recorded_work(user), configs)


def time_given(
    recorded: Sequence[RecordedWork], configs: Sequence[RunConfig], *, gpu: bool = False
) -> ExpectedTime | None:
    """Estimate the time of these runs one after another from recorded work; None if unknown.

    Args:
        gpu: True if the runs would get a GPU.
    """
    paces: dict[str, list[RecordedPace]] = {}
    total, longest, at_most = 0.0, 0.0, False
    for config in configs:
        model = config.policy.model
        if config.hosted.url:
            return None
        work = _or_demo(recorded, config, gpu=gpu)
        if model not in paces:
            shape = model_shape(model, config.policy.revision)
            paces[model] = _paces(work, model, shape.parameters if shape else 0)
        if not paces[model]:
            return None
        lengths = token_lengths(work, config)
        seconds = _seconds(config, paces[model][0], lengths)
        total += seconds
        longest += seconds * paces[model][0].range
        at_most = at_most or (lengths.trajectory is None and config.kind != "sft")
    return ExpectedTime(longest if at_most else total, at_most)


def _seconds(config: RunConfig, pace: RecordedPace, lengths: TokenLengths) -> float:
    """Return the time of a run: its start, sampling, updates, and steps on demonstrations.

    Without recorded lengths, every turn is assumed to reach its token limit.
    """
    trained, evaluated = _trajectories(config)
    longest = float(config.rollout.max_turns * config.rollout.max_response_tokens)
    played, shown = (
        longest if length is None else min(length, longest) for length in (lengths.trajectory, lengths.demonstration)
    )
    steps = config.iterations if config.kind == "sft" else config.warmup_steps
    learned = played * trained * config.algorithm.passes + shown * steps * config.sft.mean_batch
    return START_SECONDS + played * (trained + evaluated) * pace.sampling + learned * pace.learning


def _memory(config: RunConfig, recorded: int, *, gpu: bool) -> Figure:
    """Return the estimate that the trainer makes before it loads the model (trainer/memory/estimate.py)."""
    shape = model_shape(config.policy.model, config.policy.revision, look_up=True)
    if shape is None and recorded:
        weights = estimate.weight_bytes(config) * recorded
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
    """Return the run's minimum memory in bytes, over all its GPUs or of the machine; None if the model size is unknown.

    Assumes few parallel trajectories: further ones are played later. Also None if Ray actors do all the work, since the
    trainer compares them with the memory of their nodes.
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
    """Return `needed_memory` without GPUs; None if the run requires its GPU, or requests none."""
    return needed_memory(config, 0) if gpus == 1 and config.policy.device != "cuda" else None
