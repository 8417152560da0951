"""Progress reporting of a run: phases, speed, ETA, metrics and the opening and closing events."""

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
from trainer.loops.stages.checkpoints import Progress
from trainer.metrics.statistics import mean

_REPORT_INTERVAL = 1.0  # seconds between two progress events of one phase
_ETA_WINDOW = 5  # iterations that the ETA is estimated from

PhaseName = Literal["load", "warmup", "evaluate", "rollout", "update", "checkpoint"]
Reason = Literal["completed", "interrupted", "echo_trap", "budget", "error"]


class PhaseTimer:
    """Wall-clock time between the metrics of two iterations: phases by name, and the rest."""

    def __init__(self) -> None:
        self.start()

    def start(self, checkpoint: float = 0.0) -> None:
        """Begin a lap now, or as many seconds earlier as an interrupted attempt spent on its last checkpoint."""
        self._began = time.monotonic() - checkpoint
        self._phases: dict[str, float] = {"checkpoint": checkpoint} if checkpoint else {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time of the block as that of a phase."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._phases[name] = self._phases.get(name, 0.0) + time.monotonic() - began

    def finish(self) -> dict[str, float]:
        """time/*: seconds of rollout, update, checkpoint and the rest since the start; the next lap begins.

        The rest includes checkpoints, but not the evaluation, whose time is logged with its results.
        """
        phases, whole = self._phases, time.monotonic() - self._began
        self.start()
        metrics = {f"time/{name}": seconds for name, seconds in phases.items() if name != "evaluate"}
        busy = sum(seconds for name, seconds in phases.items() if name != "checkpoint")
        return metrics | {"time/other": max(0.0, whole - busy)}


class Reporter:
    """Progress, metrics, opening and closing events of one run; adds its working time to `progress.seconds`.

    Args:
        journal: receives the phase events.
        progress: read for every event.
        iterations: planned.
    """

    def __init__(self, journal: Journal, progress: Progress, iterations: int) -> None:
        self.journal, self.progress, self.iterations = journal, progress, iterations
        self._since = time.monotonic()
        self._reported = 0.0
        self._durations: list[float] = []

    def resume(self, progress: Progress) -> None:
        """Continue from the progress of a checkpoint."""
        self.progress = progress
        self._since = time.monotonic()

    def started(
        self, attempt: int, title: str, config: RunConfig, actor: Actor, processes: int, evaluated_suites: list[str]
    ) -> RunStarted:
        """The opening event of an attempt.

        Args:
            attempt: its number, from 1.
            title: name of the run.
            config: the settings in force.
            actor: samples the responses.
            processes: number of processes, each on a device like the actor's.
            evaluated_suites: suites of the evaluation at this iteration that an earlier attempt completed.
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
        """Add the time since the last tick to the run's working time."""
        now = time.monotonic()
        self.progress.seconds += now - self._since
        self._since = now

    @contextmanager
    def timed_iteration(self) -> Iterator[None]:
        """Time an iteration that is completed within the block, for the ETA."""
        began = time.monotonic()
        yield
        self._durations.append(time.monotonic() - began)

    def metrics(self, values: dict[str, float]) -> Metrics:
        """The event with these values at this point of the run."""
        self.tick()
        progress = self.progress
        return Metrics(iteration=progress.iteration, tokens=progress.tokens, seconds=progress.seconds, values=values)

    def watch(self, phase: PhaseName, iteration: int, total: int) -> Callable[[int, int], None]:
        """Begin a phase that plays `total` trajectories. Returns its progress callback (trajectories done, tokens)."""
        began = time.monotonic()
        self.phase(phase, 0, total, unit="trajectories", iteration=iteration)

        def step(done: int, tokens: int) -> None:
            if time.monotonic() - self._reported >= _REPORT_INTERVAL or done == total:
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
        """Write a phase event; steps of a warm-up are written at most once a second."""
        if phase == "warmup" and 0 < done < total and time.monotonic() - self._reported < _REPORT_INTERVAL:
            return
        self._reported = time.monotonic()
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
        """Seconds to the end at the pace of the last iterations; None before the first one is done."""
        pace = mean(self._durations[-_ETA_WINDOW:])
        return None if pace is None else pace * (self.iterations - self.progress.iteration)


def versions() -> dict[str, str]:
    """Library versions that the results may depend on."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
