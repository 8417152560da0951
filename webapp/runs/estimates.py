"""What a configuration will take: sampled tokens, time, memory. Reckoned from recorded runs where there are any.

Every figure comes with a sentence that says how it was reckoned; what is not known is said to be so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import Any

from django.db.models import OuterRef, Subquery

from trainer.config import POCKET, RunConfig
from webapp import words
from webapp.runs.models import MetricPoint, Run

LOOKED_AT = 40
GIB = 2**30
HOSTED = GIB
"""Bytes of a trainer that only asks somebody else's model."""
DEMO_ITERATION, DEMO_TRAJECTORIES, DEMO_EXAM, DEMO_PROMPTS = 8.1, 128, 4.4, 256
"""The pocket policy on two quiet cores, as docs/performance.md tells: seconds of an iteration and of an evaluation."""


@dataclass(frozen=True)
class Shape:
    """The sizes of a model that its memory depends on."""

    parameters: int
    hidden: int = 0
    layers: int = 0
    intermediate: int = 0


SHAPES = {
    POCKET: Shape(927_360, 128, 4, 448),
    "Qwen2.5-0.5B": Shape(494_032_768, 896, 24, 4864),
    "Qwen2.5-1.5B": Shape(1_543_714_304, 1536, 28, 8960),
    "Qwen2.5-3B": Shape(3_085_938_688, 2048, 36, 11_008),
    "Qwen2.5-7B": Shape(7_615_616_512, 3584, 28, 18_944),
}
"""Sizes as the models' own configurations give them; instruction-tuned ones have the same."""


@dataclass(frozen=True)
class Figure:
    """A number in words, and how it was reckoned."""

    title: str
    value: str
    how: str


@dataclass(frozen=True)
class Pace:
    """What runs with the same model did on a device, medians."""

    device: str
    runs: int
    seconds_per_token: float
    tokens_per_trajectory: float


def figures(user: Any, config: RunConfig) -> list[Figure]:
    """Tokens, time and memory of the configuration. One query."""
    if config.hosted.url:
        return _hosted(config)
    recorded = list(_recorded(user, config.policy.model))
    paces = _paces(recorded)
    shape = shape_of(config.policy.model, max((run.parameters for run in recorded), default=0))
    return [_tokens(config, paces), *_times(config, paces), _memory(config, shape)]


def _hosted(config: RunConfig) -> list[Figure]:
    """Of a model that somebody else runs: what it writes at most, and what that may cost."""
    hosted, (_, examined) = config.hosted, _played(config)
    written = examined * config.rollout.max_turns * config.rollout.max_response_tokens
    found = [_tokens(config, []), Figure("Time", "not known", f"It is up to {hosted.host}.")]
    if hosted.price_out:
        how = f"At {hosted.price_out:g} a million; what the model reads comes on top, and hosted.max_cost limits both."
        return [*found, Figure("Cost of what it writes", f"at most {written * hosted.price_out / 1e6:,.2f}", how)]
    return [*found, Figure("Cost", "not known", "hosted.price_in and hosted.price_out are not set.")]


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
        .only("device", "parameters", "config")
        .order_by("-created_at")[:LOOKED_AT]
    )


def _paces(recorded: list[Any]) -> list[Pace]:
    by_device: dict[str, list[Any]] = {}
    for run in recorded:
        if run.tokens and run.seconds and run.measured:
            by_device.setdefault(run.device, []).append(run)
    return [
        Pace(
            device,
            len(runs),
            median(run.seconds / run.tokens for run in runs),
            median(run.tokens / (run.measured * _trajectories(run.config)) for run in runs),
        )
        for device, runs in by_device.items()
    ]


def _trajectories(config: dict[str, Any]) -> int:
    rollout = config.get("rollout", {})
    return max(1, rollout.get("groups", 1) * rollout.get("group_size", 1))


def exams(config: RunConfig) -> int:
    """How often the fixed exam is taken: before, every so many iterations, after."""
    if config.evaluation.prompts == 0:
        return 0
    if config.kind == "evaluate":
        return 1
    every = config.evaluation.every
    return 2 + ((config.iterations - 1) // every if every else 0)


def _played(config: RunConfig) -> tuple[int, int]:
    """Trajectories of rollouts, and of exams."""
    suites = len(config.environment.names) + len(config.evaluation.suites)
    examined = exams(config) * suites * config.evaluation.prompts * config.evaluation.samples
    return (config.iterations * config.rollout.trajectories if config.kind == "train" else 0), examined


def _tokens(config: RunConfig, paces: list[Pace]) -> Figure:
    trained, examined = _played(config)
    most = (trained + examined) * config.rollout.max_turns * config.rollout.max_response_tokens
    played = words.plural(trained + examined, "trajectory", "trajectories")
    if paces:
        each = median(pace.tokens_per_trajectory for pace in paces)
        likely = min(most, (trained + examined) * each)
        how = f"{played} of {each:,.0f} tokens each, as recorded runs with this model wrote; at most {_short(most)}."
        return Figure("Sampled tokens", f"about {_short(likely)}", how)
    return Figure("Sampled tokens", f"at most {_short(most)}", f"{played} whose every turn takes the whole limit.")


def _times(config: RunConfig, paces: list[Pace]) -> list[Figure]:
    trained, examined = _played(config)
    if config.kind == "sft":
        return [Figure("Time", "not known", "Runs that imitate a solver are not reckoned.")]
    if paces:
        return [
            Figure(
                f"Time on {pace.device}",
                f"about {words.duration((trained + examined) * pace.tokens_per_trajectory * pace.seconds_per_token)}",
                f"Median of {words.plural(pace.runs, 'recorded run')}: {1 / pace.seconds_per_token:,.0f} tokens/s with "
                "everything, updates and exams included.",
            )
            for pace in sorted(paces, key=lambda pace: -pace.runs)[:3]
        ]
    if config.policy.model == POCKET:
        seconds = trained * DEMO_ITERATION / DEMO_TRAJECTORIES + examined * DEMO_EXAM / DEMO_PROMPTS
        how = (
            f"From the demo on two quiet CPU cores: {DEMO_ITERATION} s for {DEMO_TRAJECTORIES} trajectories with two "
            f"updates, {DEMO_EXAM} s for {DEMO_PROMPTS} prompts. No run was recorded here yet."
        )
        return [Figure("Time", f"about {words.duration(seconds)}", how)]
    return [
        Figure("Time", "not known on this device", "No run with this model was recorded yet; the first one will tell.")
    ]


def shape_of(model: str, recorded: int = 0) -> Shape | None:
    """The model's sizes: from the table, or at least its parameters from a recorded run; None where neither tells."""
    name = model.rstrip("/").rsplit("/", 1)[-1].removesuffix("-Instruct")
    known = SHAPES.get(name)
    return known or (Shape(recorded) if recorded else None)


def _memory(config: RunConfig, shape: Shape | None) -> Figure:
    if shape is None:
        return Figure("Memory", "not known", "The size of this model is not known before its first run.")
    parts = memory_parts(config, shape)
    told = ", ".join(f"{name} {_gib(size)}" for name, size in parts.items())
    return Figure(
        "Memory",
        f"about {_gib(sum(parts.values()))}",
        f"{told[:1].upper()}{told[1:]}. The rollout's cache comes on top.",
    )


def needed_memory(config: RunConfig) -> int | None:
    """Bytes that a run of this configuration takes, by the same reckoning; None where the model is not known."""
    if config.hosted.url:
        return HOSTED
    shape = shape_of(config.policy.model)
    return None if shape is None else math.ceil(sum(memory_parts(config, shape).values()))


def memory_parts(config: RunConfig, shape: Shape) -> dict[str, float]:
    """Bytes by what takes them, w being the bytes of a number (4, or 2 in bfloat16) and P the parameters.

    Trained weights need 4·w·P: themselves, their gradients, Adam's two averages. A critic is a second such model, a
    reference w·P. With LoRA only the adapters, rank · (in + out) of each linear layer, are trained. A layer keeps about
    18 · hidden + 4 · intermediate numbers of each token of a micro-batch for the way back.
    """
    width, size = (2 if config.policy.dtype == "bfloat16" else 4), shape.parameters
    if config.kind == "evaluate":
        return {"weights": float(width * size)}
    lora = config.lora.rank
    adapters = lora * shape.layers * (9.5 * shape.hidden + 3 * shape.intermediate)
    trained = 4 * width * adapters + width * size if lora else 4.0 * width * size
    parts = {"weights, gradients and Adam": trained}
    if config.kind == "train" and config.algorithm.needs_critic:
        parts["critic"] = 4 * width * adapters if lora else trained
    if config.kind == "train" and config.algorithm.kl_coef > 0 and not lora:
        parts["reference"] = float(width * size)
    tokens = config.optimizer.micro_batch_tokens
    if shape.layers:
        kept = tokens * shape.layers * (18 * shape.hidden + 4 * shape.intermediate) * width
        parts[f"activations of {tokens:,} tokens"] = float(kept)
    return parts


def _gib(size: float) -> str:
    return f"{size / GIB:,.1f} GiB" if size >= GIB / 10 else f"{max(1, math.ceil(size / 2**20)):,} MiB"


def _short(number: float) -> str:
    if number >= 1e6:
        return f"{number / 1e6:,.1f} million"
    return f"{number:,.0f}" if number < 1e4 else f"{number / 1e3:,.0f} thousand"
