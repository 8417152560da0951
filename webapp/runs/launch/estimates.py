"""What a configuration will take: sampled tokens, time, memory. Reckoned from recorded runs where there are any.

Every figure comes with a sentence that says how it was reckoned; what is not known is said to be so.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from django.db.models import F, OuterRef, Subquery

from trainer.config.run import POCKET, RunConfig
from trainer.memory import estimate
from trainer.memory.advice import gigabytes, parts_as_text
from trainer.policy.shapes import shape_of
from webapp.core import formatting
from webapp.runs.models import MetricPoint, Run

LOOKED_AT = 40
AT_LEAST = 16
"""Trajectories at a time with which a rollout is not yet slow."""
GIB = 2**30
HOSTED = GIB
"""Bytes of a trainer that only asks somebody else's model."""
DEMO_ITERATION, DEMO_TRAJECTORIES, DEMO_EXAM, DEMO_PROMPTS = 8.1, 128, 4.4, 256
"""The pocket policy on two quiet cores, as docs/performance.md tells: seconds of an iteration and of an evaluation."""


@dataclass(frozen=True)
class Figure:
    """A number in words, and how it was reckoned."""

    title: str
    value: str
    how: str


@dataclass(frozen=True)
class RecordedPace:
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
    parameters = max((run.parameters for run in recorded), default=0)
    return [_tokens(config, paces), *_times(config, paces), _memory(config, parameters)]


def _hosted(config: RunConfig) -> list[Figure]:
    """Of a model that somebody else runs: what it writes at most, and what that may cost."""
    hosted, (_, examined) = config.hosted, _played(config)
    written = examined * config.rollout.max_turns * config.rollout.max_response_tokens
    found = [_tokens(config, []), Figure("Time", "not known", f"It is up to {hosted.host}.")]
    if hosted.completion_price_per_million:
        how = (
            f"At {hosted.completion_price_per_million:g} a million; what the model reads comes on top, and "
            "hosted.max_cost limits both."
        )
        return [
            *found,
            Figure(
                "Cost of what it writes", f"at most {written * hosted.completion_price_per_million / 1e6:,.2f}", how
            ),
        ]
    return [
        *found,
        Figure(
            "Cost", "not known", "hosted.prompt_price_per_million and hosted.completion_price_per_million are not set."
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
        .order_by("-created_at")[:LOOKED_AT]
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
    examined = exams(config) * suites * config.evaluation.prompts * config.evaluation.samples_per_prompt
    return (config.iterations * config.rollout.trajectories if config.kind == "train" else 0), examined


def _tokens(config: RunConfig, paces: list[RecordedPace]) -> Figure:
    trained, examined = _played(config)
    most = (trained + examined) * config.rollout.max_turns * config.rollout.max_response_tokens
    played = formatting.plural(trained + examined, "trajectory", "trajectories")
    if paces:
        each = median(pace.tokens_per_trajectory for pace in paces)
        likely = min(most, (trained + examined) * each)
        how = f"{played} of {each:,.0f} tokens each, as recorded runs with this model wrote; at most {_short(most)}."
        return Figure("Sampled tokens", f"about {_short(likely)}", how)
    return Figure("Sampled tokens", f"at most {_short(most)}", f"{played} whose every turn takes the whole limit.")


def _times(config: RunConfig, paces: list[RecordedPace]) -> list[Figure]:
    trained, examined = _played(config)
    if config.kind == "sft":
        return [Figure("Time", "not known", "Runs that imitate a solver are not reckoned.")]
    if paces:
        trajectories = trained + examined
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
        seconds = trained * DEMO_ITERATION / DEMO_TRAJECTORIES + examined * DEMO_EXAM / DEMO_PROMPTS
        how = (
            f"From the demo on two quiet CPU cores: {DEMO_ITERATION} s for {DEMO_TRAJECTORIES} trajectories with two "
            f"updates, {DEMO_EXAM} s for {DEMO_PROMPTS} prompts. No run was recorded here yet."
        )
        return [Figure("Time", f"about {formatting.duration(seconds)}", how)]
    return [
        Figure("Time", "not known on this device", "No run with this model was recorded yet; the first one will tell.")
    ]


def _memory(config: RunConfig, recorded: int) -> Figure:
    """As the trainer reckons it before it loads anything (trainer/memory/estimate.py)."""
    shape = shape_of(config.policy.model)
    if shape is None and recorded:
        weights = estimate.width_of(config) * recorded
        return Figure("Memory", f"more than {gigabytes(weights)}", "The weights alone, as a recorded run counted them.")
    if shape is None:
        return Figure("Memory", "not known", "The size of this model is not known before its first run.")
    found = estimate.estimate_memory(config, shape, gpu=estimate.on_gpu(config, shape))
    least = needed_memory(config)
    assert least is not None
    fewer = f" With fewer trajectories at a time {gigabytes(least)} are enough." if least < 0.95 * found.peak else ""
    return Figure(
        "Memory",
        f"about {gigabytes(found.peak)}",
        f"Most {estimate.STAGES[found.worst]}: {parts_as_text(found)}.{fewer}",
    )


def needed_memory(config: RunConfig, gpus: int = 1) -> int | None:
    """Bytes that the run cannot do without, of all its GPUs together; None where the model is not known.

    Trajectories that do not fit are played one after the other, so few of them are counted.
    """
    if config.hosted.url:
        return HOSTED
    shape = shape_of(config.policy.model)
    if shape is None:
        return None
    processes = max(1, gpus)
    rows = min(AT_LEAST, estimate.played_at_once(config, processes))
    gpu = estimate.on_gpu(config, shape)
    return processes * estimate.estimate_memory(config, shape, gpu=gpu, rows=rows, processes=processes).peak


def _short(number: float) -> str:
    if number >= 1e6:
        return f"{number / 1e6:,.1f} million"
    return f"{number:,.0f}" if number < 1e4 else f"{number / 1e3:,.0f} thousand"
