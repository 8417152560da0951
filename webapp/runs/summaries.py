"""Summaries of runs and presets for pages: rows of the list, preset cards, texts. A constant number of queries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from django.db import connection
from django.utils import timezone
from pydantic import ValidationError

from trainer.config.algorithm import AlgorithmConfig
from trainer.config.run import POCKET, RunConfig
from trainer.metrics.charts import spark
from webapp.core import formatting
from webapp.core.database import database_now
from webapp.runs.condition import Condition
from webapp.runs.listing.evaluation_curves import EvaluationCurve, evaluation_curves
from webapp.runs.models import Run
from webapp.runs.queue.order import queue_positions
from webapp.runs.run_colours import get_colour
from webapp.teams.models import Team, User

SPARK_POINTS = 60
ESTIMATORS = {
    "gae": "PPO with GAE",
    "bi_level_gae": "PPO with bi-level GAE",
    "grpo": "GRPO",
    "rloo": "RLOO",
    "reinforce_plus_plus": "REINFORCE++",
    "reinforce_plus_plus_baseline": "REINFORCE++ with baseline",
    "gigpo": "GiGPO",
    "mt_grpo": "MT-GRPO",
    "turn_gae": "PPO over turns",
}
SUCCESS, REWARD = "success/rate", "reward/mean"


@dataclass(frozen=True)
class RunSummary:
    """A row of the list of runs. Needs the run's team and author selected with it."""

    run: Run
    success: list[float]
    reward: list[float]
    success_last: float = 0.0
    reward_last: float = 0.0
    result: EvaluationCurve | None = None
    waits: str = ""

    @property
    def slug(self) -> str:
        return self.run.slug

    @property
    def title(self) -> str:
        return self.run.title

    @property
    def team(self) -> Team:
        return self.run.team

    @property
    def author(self) -> User | None:
        return self.run.author

    @property
    def environment(self) -> str:
        return self.run.environment

    @property
    def tags(self) -> list[str]:
        tags: list[str] = self.run.tags
        return tags

    @property
    def group(self) -> str:
        return self.run.group

    @property
    def visibility(self) -> str:
        return self.run.visibility

    @property
    def imported(self) -> bool:
        return self.run.imported

    @property
    def shown_state(self) -> str:
        return self.run.shown_state

    @property
    def condition(self) -> Condition | None:
        return self.run.condition

    @property
    def device(self) -> str:
        return self.run.device

    @property
    def created_at(self) -> datetime:
        return self.run.created_at

    @property
    def active(self) -> bool:
        """True if the row may change while the list is open."""
        return self.run.state in (Run.State.QUEUED, *Run.HELD)

    @property
    def trained(self) -> bool:
        """True if a worker trains it, so that attempts may be in progress."""
        return self.run.state in Run.HELD

    @property
    def environments(self) -> list[str]:
        """All environments of the run, its main one first."""
        mix = self.run.config.get("environment", {}).get("mix", [])
        return [self.run.environment, *(entry["name"] for entry in mix)]

    @property
    def colour(self) -> int:
        """Number of the run's colour, as in its curves."""
        return get_colour(self.run.pk)

    @property
    def named(self) -> bool:
        """True if its title is not derived from its settings."""
        return bool(self.run.config.get("name")) or self.run.recorded is not None

    @property
    def details(self) -> str:
        """Environments, algorithm and model, e.g. “FrozenLake · StarPO-S · GRPO”, without repeating the title."""
        parts = [" + ".join(self.environments), *algorithm_text(self.run.config).replace(", ", " · ").split(" · ")]
        title = self.run.title.lower()
        return " · ".join(part for part in parts if part and part.lower() not in re.split(r"\s*[·,]\s*", title))

    @property
    def progress(self) -> float:
        return formatting.progress(self.run.phase_facts, self.run.length, self.run.state)

    @property
    def phase_text(self) -> str:
        return formatting.phase_text(self.run.phase_facts, self.run.length)

    @property
    def eta_text(self) -> str:
        """Remaining time; empty unless the run is being trained and the time is known."""
        phase = self.run.phase_facts
        running = self.run.state == Run.State.RUNNING
        return f"{formatting.duration(phase['eta_seconds'])} left" if running and phase and phase["eta_seconds"] else ""

    @property
    def iteration_text(self) -> str:
        if not self.run.iterations and self.run.recorded is not None:
            return formatting.plural(self.run.iteration, "iteration")
        if not self.run.iterations:
            return ""  # an evaluation
        steps = self.run.warmup_steps
        if self.run.iteration < 0:
            return f"warm-up {max(0, steps + self.run.iteration):,} of {formatting.plural(steps, 'step')}"
        return f"{self.run.iteration:,} of {self.run.iterations:,}"

    @cached_property
    def success_spark(self) -> str:
        return spark(self.success)

    @cached_property
    def reward_spark(self) -> str:
        return spark(self.reward)

    @property
    def age(self) -> str:
        return age(self.run.created_at)


def cards(runs: Sequence[Run]) -> list[RunSummary]:
    """Return rows for the list: sparklines, newest results, and reasons for waiting. Three queries, or four."""
    keys = [run.pk for run in runs]
    curves: dict[tuple[int, str], list[float]] = {}
    last: dict[tuple[int, str], float] = {}
    with connection.cursor() as cursor:
        cursor.execute(_CURVES, [SPARK_POINTS, keys, [SUCCESS, REWARD]])
        for run_id, name, means, newest in cursor.fetchall():
            curves[run_id, name], last[run_id, name] = means, newest
    results = evaluation_curves({run.pk: run.environment for run in runs})
    places = queue_positions(database_now()) if any(run.state == Run.State.QUEUED for run in runs) else {}
    return [
        RunSummary(
            run,
            curves.get((run.pk, SUCCESS), []),
            curves.get((run.pk, REWARD), []),
            last.get((run.pk, SUCCESS), 0.0),
            last.get((run.pk, REWARD), 0.0),
            results.get(run.pk),
            standing.text if (standing := places.get(run.pk)) else "",
        )
        for run in runs
    ]


_CURVES = """
SELECT run_id, name, array_agg(mean ORDER BY bucket), (array_agg(newest ORDER BY bucket DESC))[1]
FROM (
    SELECT m.run_id, m.name, m.iteration * %s / greatest(r.iterations, r.iteration + 1, 1) AS bucket,
        avg(m.value) AS mean, (array_agg(m.value ORDER BY m.iteration DESC))[1] AS newest
    FROM runs_metricpoint m JOIN runs_run r ON r.id = m.run_id
    WHERE m.run_id = ANY(%s) AND m.name = ANY(%s)
    GROUP BY m.run_id, m.name, bucket
) AS buckets
GROUP BY run_id, name
"""
"""Means of the curves in SPARK_POINTS buckets, and their newest values."""


def age(moment: datetime) -> str:
    """Format the time since `moment`."""
    return formatting.duration((timezone.now() - moment).total_seconds())


_EVALUATION_STATES: dict[str, str] = {
    Run.State.QUEUED: "Waiting for a free worker",
    Run.State.PAUSED: "Paused; resume continues with the remaining suites",
    Run.State.STOPPED: "Stopped; the suites evaluated so far are kept",
    Run.State.FINISHED: "All suites evaluated",
    Run.State.FAILED: "Failed",
    Run.State.CANCELLED: "Cancelled",
}
"""Texts for evaluation runs, which have no iterations."""


def rest_text(run: Run) -> str:
    """Describe the state of a run that is not being trained."""
    if run.recorded is not None:
        return _recorded_text(run)
    if run.iterations == 0:
        return _EVALUATION_STATES.get(run.state, "")
    at = run.place_text
    match run.state:
        case Run.State.QUEUED:
            return "Waiting for a free worker" + (f"; continues after {at}" if run.iteration else "")
        case Run.State.PAUSED:
            if run.iteration < 0:
                return f"Paused after {at}; resume continues with its next step"
            return f"Paused after {at}; resume continues at {min(run.iteration + 1, run.iterations)}"
        case Run.State.STOPPED:
            return f"Stopped after {at}; its last checkpoint is kept"
        case Run.State.FINISHED:
            return f"All {formatting.plural(run.iterations, 'iteration')} done"
        case Run.State.FAILED:
            return f"Failed after {at}"
        case Run.State.CANCELLED:
            return f"Cancelled after {at}"
    return ""


def _recorded_text(run: Run) -> str:
    """Describe the state of another trainer's run, with its progress if it is known."""
    state = Run.State(run.state).label
    if not run.iteration:
        return state
    planned = f" of {run.iterations:,}" if run.iterations else ""
    return f"{state} after iteration {run.iteration:,}{planned}"


def algorithm_text(config: dict[str, Any]) -> str:
    """Return algorithm and model, e.g. “StarPO-S, GRPO · pocket policy”; empty for another trainer's settings."""
    if "recorded" in config:
        return ""
    algorithm = config.get("algorithm", {})
    variant = get_variant(algorithm)
    estimator = ESTIMATORS.get(algorithm.get("estimator", ""), "")
    way = {"evaluate": "Evaluation", "sft": "SFT"}.get(config.get("kind", "train"), f"{variant}, {estimator}")
    hosted = config.get("hosted") or {}
    model = hosted.get("model", "") if hosted.get("url") else config.get("policy", {}).get("model", "")
    return f"{way} · {'pocket policy' if model == POCKET else model.rstrip('/').rsplit('/', 1)[-1]}"


def get_variant(algorithm: Mapping[str, Any]) -> str:
    """Return StarPO or StarPO-S for stored settings, which this version may no longer accept."""
    fields = {name: algorithm[name] for name in ("group_filter", "group_filter_keep") if name in algorithm}
    try:
        return AlgorithmConfig.model_validate(fields).variant
    except ValidationError:
        return "StarPO"


def length_text(config: RunConfig) -> str:
    """Describe the length of a run, e.g. “40 iterations of 8 × 16 trajectories”."""
    rollout, evaluation = config.rollout, config.evaluation
    if config.kind == "evaluate":
        samples = f" × {evaluation.samples_per_prompt} samples" if evaluation.samples_per_prompt > 1 else ""
        suites, prompts = _suites(config), evaluation.prompts
        return f"{formatting.plural(suites, 'suite')} of {formatting.plural(prompts, 'prompt')}{samples}"
    if config.kind == "sft":
        demonstrations = formatting.plural(config.sft.demonstrations, "demonstration")
        return f"{formatting.plural(config.iterations, 'step')} of {config.sft.batch:,} out of {demonstrations}"
    steps = f"{formatting.plural(config.warmup_steps, 'step')} on demonstrations, then " if config.warmup_steps else ""
    iterations = formatting.plural(config.iterations, "iteration")
    return f"{steps}{iterations} of {rollout.groups} × {rollout.group_size} trajectories"


def _suites(config: RunConfig) -> int:
    return len(config.environment.names) + len(config.evaluation.suites)
