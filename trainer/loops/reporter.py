"""What a run tells about itself besides what was played: phases, progress, pace, the clock, its closing words."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import torch
import transformers

from trainer.config.run import RunConfig
from trainer.engines.sampler import Actor
from trainer.journal.events import Metrics, Phase, RunFinished, RunStarted
from trainer.journal.writer import Journal
from trainer.loops.checkpoints import Progress
from trainer.metrics.statistics import mean

_TELL_EVERY = 1.0  # seconds between two progress lines of one phase
_RECENT = 5  # iterations that the time to the end is estimated from

PhaseName = Literal["load", "warmup", "evaluate", "rollout", "update", "checkpoint"]
Reason = Literal["completed", "interrupted", "echo_trap", "budget", "error"]


class PhaseTimer:
    """Where the time goes between the metrics of one iteration and those of the next: parts by name, and the rest."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Begin now, with nothing booked."""
        self._began = time.monotonic()
        self._parts: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Book what happens inside as a part."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._parts[name] = self._parts.get(name, 0.0) + time.monotonic() - began

    def finish(self) -> dict[str, float]:
        """time/*: of rollout, update, checkpoint and the rest since the start, in seconds; the next lap begins.

        The evaluation's time is told with the evaluation; it is no part of the rest, as writing checkpoints is.
        """
        parts, whole = self._parts, time.monotonic() - self._began
        self.start()
        told = {f"time/{name}": seconds for name, seconds in parts.items() if name != "evaluate"}
        busy = sum(seconds for name, seconds in parts.items() if name != "checkpoint")
        return told | {"time/other": max(0.0, whole - busy)}


class Reporter:
    """Writes phases, metrics and the closing event of one run; books its working time in `progress`.

    Args:
        journal: where everything goes.
        progress: where the run stands; read at every event, its `seconds` kept up to date here.
        iterations: planned.
    """

    def __init__(self, journal: Journal, progress: Progress, iterations: int) -> None:
        self.journal, self.progress, self.iterations = journal, progress, iterations
        self._since = time.monotonic()
        self._told = 0.0
        self._durations: list[float] = []

    def resumes(self, progress: Progress) -> None:
        """The run goes on from what a checkpoint says."""
        self.progress = progress
        self._since = time.monotonic()

    def started(
        self, attempt: int, title: str, config: RunConfig, actor: Actor, processes: int, evaluated_suites: list[str]
    ) -> RunStarted:
        """The opening event of an attempt.

        Args:
            attempt: which one, from 1.
            title: what the run is called where nobody named it.
            config: the settings in force.
            actor: who plays.
            processes: how many work on the run, each on a device like the actor's.
            evaluated_suites: those of the examination at this iteration that an earlier attempt has done.
        """
        return RunStarted(
            attempt=attempt,
            from_iteration=self.progress.iteration,
            evaluated_iteration=self.progress.evaluated,
            evaluated_suites=evaluated_suites,
            iterations=self.iterations,
            title=title,
            config=config.model_dump(mode="json"),
            device=f"{processes} × {actor.device}" if processes > 1 else actor.device,
            parameters=actor.parameters,
            versions=versions(),
        )

    def tick(self) -> None:
        """Book the time since the last tick as work on the run."""
        now = time.monotonic()
        self.progress.seconds += now - self._since
        self._since = now

    def iteration_took(self, seconds: float) -> None:
        """Tell how long an iteration took, for the time to the end."""
        self._durations.append(seconds)

    def metrics(self, values: dict[str, float]) -> Metrics:
        """The event that holds these values at this point of the run."""
        progress = self.progress
        return Metrics(iteration=progress.iteration, tokens=progress.tokens, seconds=progress.seconds, values=values)

    def watch(self, phase: PhaseName, iteration: int, total: int) -> Callable[[int, int], None]:
        """Begin a phase that plays `total` trajectories. Returns what to call with (trajectories done, tokens)."""
        began = time.monotonic()
        self.phase(phase, 0, total, unit="trajectories", iteration=iteration)

        def step(done: int, tokens: int) -> None:
            if time.monotonic() - self._told >= _TELL_EVERY or done == total:
                speed = tokens / max(1e-6, time.monotonic() - began)
                self.phase(phase, done, total, unit="trajectories", iteration=iteration, speed=speed)

        return step

    def phase(
        self,
        phase: PhaseName,
        done: int = 0,
        total: int = 0,
        *,
        unit: str = "",
        iteration: int | None = None,
        speed: float | None = None,
    ) -> None:
        """What the run is doing and how far it is; steps of a warm-up are told at most once a second."""
        if phase == "warmup" and 0 < done < total and time.monotonic() - self._told < _TELL_EVERY:
            return
        self._told = time.monotonic()
        self.journal.write(
            Phase(
                phase=phase,
                iteration=self.progress.iteration if iteration is None else iteration,
                done=done,
                total=total,
                unit=unit,
                tokens_per_second=speed,
                eta_seconds=self._eta(),
            )
        )

    def finished(self, reason: Reason, message: str) -> RunFinished:
        """The closing event."""
        self.tick()
        summary = {
            "success_before": self.progress.first_success,
            "success_after": self.progress.last_success,
            "tokens": float(self.progress.tokens),
            "seconds": self.progress.seconds,
        }
        return RunFinished(
            reason=reason,
            iteration=self.progress.iteration,
            message=message,
            summary={name: value for name, value in summary.items() if value is not None},
        )

    def _eta(self) -> float | None:
        """Seconds to the end by the last iterations' pace; None before the first one is done."""
        pace = mean(self._durations[-_RECENT:])
        return None if pace is None else pace * (self.iterations - self.progress.iteration)


def versions() -> dict[str, str]:
    """What the run's numbers may depend on besides its settings: library → version."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
