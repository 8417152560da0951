"""Progress reporting of a run: phases, speed, ETA, metrics and the opening and closing events."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
import transformers

from trainer.config.run import RunConfig
from trainer.journal.events import Metrics, Phase, RunFinished, RunStarted, UpdateProgress
from trainer.journal.live_pipe import LivePipe
from trainer.journal.source_commit import source_commit
from trainer.journal.writer import Journal
from trainer.learner.update_meter import UpdateReport
from trainer.loops import forecast
from trainer.loops.forecast import RunPosition
from trainer.loops.stages.checkpoints import Progress
from trainer.memory.available import trim_heap
from trainer.metrics.timeline import TRAINER, Timeline

_REPORT_INTERVAL = 1.0  # seconds between two progress events of one phase
_UPDATE_INTERVAL = 2.0  # seconds between two events of an update, which emits no other events: keeps the journal small
_LIVE_INTERVAL = 0.25  # seconds between two messages about an update that bypass the journal

PhaseName = Literal["load", "warmup", "evaluate", "rollout", "update", "checkpoint"]
Reason = Literal["completed", "interrupted", "echo_trap", "no_signal", "budget", "error"]


class PhaseTimer:
    """Wall-clock time between the metrics of two iterations: phases by name, and the rest.

    Args:
        timeline: receives each phase as a span of the trainer.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.start()

    def start(self, checkpoint: float = 0.0) -> None:
        """Begin a lap now, or as many seconds earlier as an interrupted attempt spent on its last checkpoint."""
        self._began = time.monotonic() - checkpoint
        self._phases: dict[str, float] = {"checkpoint": checkpoint} if checkpoint else {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time of the block for that phase, and free unused memory afterwards."""
        began = time.monotonic()
        try:
            with self.timeline.span(TRAINER, name):
                yield
                trim_heap()
        finally:
            self._phases[name] = self._phases.get(name, 0.0) + time.monotonic() - began

    def finish(self) -> dict[str, float]:
        """Return time/*: seconds of rollout, update, checkpoint and the rest since the start; the next lap begins.

        The rest includes checkpoints, but not the evaluation: its time is logged with its results.
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
        progress: read for every event; stores the measured seconds of phases.
        iterations: number of planned iterations.
        config: configuration of the run; None if there are no iterations.
    """

    def __init__(self, journal: Journal, progress: Progress, iterations: int, config: RunConfig | None = None) -> None:
        self.journal, self.progress, self.iterations, self.config = journal, progress, iterations, config
        self._since = time.monotonic()
        self._reported = self._sent = 0.0
        self._live = LivePipe()
        self._prepare_share = 0.0  # as a share of the last update's time

    def resume(self, progress: Progress) -> None:
        """Continue from the progress of a checkpoint."""
        self.progress = progress
        self._since = time.monotonic()

    def started(
        self, attempt: int, title: str, config: RunConfig, device: str, parameters: int, evaluated_suites: list[str]
    ) -> RunStarted:
        """Return the opening event of an attempt.

        Args:
            attempt: number of the attempt, from 1.
            title: name of the run.
            config: the current settings.
            device: description of the sampling device.
            parameters: number of the policy's parameters; 0 if unknown.
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
            device=device,
            parameters=parameters,
            versions=versions(),
        )

    def tick(self) -> None:
        """Add the time since the last tick to the run's working time."""
        now = time.monotonic()
        self.progress.seconds += now - self._since
        self._since = now

    def metrics(self, values: dict[str, float]) -> Metrics:
        """Return the event with these values at the current iteration; the forecast uses their time/*."""
        self.tick()
        progress = self.progress
        for phase, seconds in forecast.phase_seconds(values).items():
            measured = [*progress.phase_seconds.get(phase, []), seconds]
            progress.phase_seconds[phase] = measured[-forecast.WINDOW :]
        return Metrics(iteration=progress.iteration, tokens=progress.tokens, seconds=progress.seconds, values=values)

    def watch(
        self, phase: PhaseName, iteration: int, total: int, part: tuple[int, int] = (0, 1), played: int = 0
    ) -> Callable[[int, int], None]:
        """Begin a phase that plays `total` trajectories. Returns its progress callback (trajectories done, tokens).

        Args:
            part: number of this part of the phase, from 0, and number of parts: the suites of an evaluation.
            played: trajectories of the total that earlier rounds played; the callback gets the trajectories of this
                round.
        """
        began = time.monotonic()

        def report(done: int, speed: float | None = None) -> None:
            share = (part[0] + (done / total if total else 0.0)) / part[1]
            self.phase(phase, done, total, unit="trajectories", iteration=iteration, speed=speed, share=share)

        def step(done: int, tokens: int) -> None:
            if time.monotonic() - self._reported >= _REPORT_INTERVAL or played + done == total:
                report(played + done, tokens / max(1e-6, time.monotonic() - began))

        report(played)
        return step

    def watch_update(self, iteration: int) -> Callable[[UpdateReport], None]:
        """Begin the update of an iteration. Returns its progress callback.

        The journal gets a few events, the live pipe about four messages a second.
        """
        self._write(self._phase("update", iteration=iteration, share=0.0, update=UpdateProgress(stage="prepare")))
        shown: tuple[str, int] = ("prepare", 0)
        began, prepared = time.monotonic(), 0.0

        def step(report: UpdateReport) -> None:
            nonlocal shown, prepared
            now, position = time.monotonic(), (report.stage, report.pass_number)
            ahead, prepares = self._prepare_share, report.stage == "prepare"
            if prepares:
                share = ahead * report.done / report.total
            else:
                prepared = prepared or now - began
                share = ahead + (1 - ahead) * report.share
                if report.share >= 1:
                    self._prepare_share = min(1.0, prepared / max(1e-6, now - began))
            if position == shown and now - self._sent < _LIVE_INTERVAL:
                return
            update = UpdateProgress(
                stage=report.stage, pass_number=report.pass_number, passes=report.passes, groups=report.groups
            )
            event = self._phase(
                "update",
                report.done,
                report.total,
                unit="thoughts" if prepares else "micro-batches",
                iteration=iteration,
                share=round(share, 4),
                update=update,
            )
            if position != shown or now - self._reported >= _UPDATE_INTERVAL:
                shown = position
                self._write(event)
            else:
                self._send(event)

        return step

    def watch_imitation(self, iteration: int, step: int, steps: int) -> Callable[[UpdateReport], None]:
        """Begin an optimiser step on demonstrations. Returns its progress callback.

        Args:
            step, steps: number of the step in its epoch, from 0, and steps of an epoch.
        """

        def event(done: float) -> Phase:
            return self._phase("update", step, steps, unit="steps", iteration=iteration, share=round(done, 4))

        return self._watch_step(event)

    def watch_warmup(self, step: int, steps: int) -> Callable[[UpdateReport], None]:
        """Begin a step of the warm-up on demonstrations. Returns its progress callback.

        Args:
            step, steps: number of the step, from 0, and steps of the warm-up.
        """
        iteration = step + 1 - steps

        def event(done: float) -> Phase:
            position = RunPosition("warmup", iteration, done)
            share = round((step + done) / steps, 4)
            return self._phase("warmup", step, steps, position=position, unit="steps", iteration=iteration, share=share)

        return self._watch_step(event)

    def _watch_step(self, event: Callable[[float], Phase]) -> Callable[[UpdateReport], None]:
        """Write the event of a step's beginning. The callback sends the completed share, and writes it at intervals."""
        self._write(event(0.0))

        def report(progress: UpdateReport) -> None:
            now = time.monotonic()
            if now - self._sent >= _LIVE_INTERVAL:
                (self._write if now - self._reported >= _UPDATE_INTERVAL else self._send)(event(progress.share))

        return report

    def phase(
        self,
        phase: PhaseName,
        done: int = 0,
        total: int = 0,
        *,
        unit: str = "",
        iteration: int | None = None,
        speed: float | None = None,
        share: float | None = None,
    ) -> None:
        """Write a phase event; steps of a warm-up are written at most once a second."""
        if phase == "warmup" and 0 < done < total and time.monotonic() - self._reported < _REPORT_INTERVAL:
            return
        at = self.progress.iteration if iteration is None else iteration
        # Demonstrations are played, and the pocket policy is built, before the run's own steps.
        position = RunPosition("load", at) if phase == "warmup" else None
        self._write(
            self._phase(
                phase,
                done,
                total,
                position=position,
                unit=unit,
                iteration=at,
                tokens_per_second=speed,
                share=share,
            )
        )

    def _phase(
        self,
        phase: PhaseName,
        done: int = 0,
        total: int = 0,
        *,
        iteration: int,
        position: RunPosition | None = None,
        **fields: Any,
    ) -> Phase:
        """Return a phase event with the forecast.

        Args:
            iteration: up to 0 within a warm-up, which events report as before the first iteration.
            position: position in the run, unless it follows from the phase, its iteration and its share.
        """
        event = Phase(phase=phase, iteration=max(0, iteration), done=done, total=total, **fields)
        if self.config is None or self.iterations == 0:
            return event
        measured = self.progress.phase_seconds
        position = position or RunPosition(phase, iteration, event.share or 0.0)
        remaining = forecast.remaining_phases(self.config, self.iterations, position)
        if left := forecast.forecast(measured, remaining, forecast.assumed_seconds(measured, self.config)):
            event.eta_seconds, event.eta_low_seconds = round(left.seconds, 1), round(left.low, 1)
            event.eta_high_seconds = round(left.high, 1)
        event.iteration_shares = forecast.iteration_shares(measured, self.config, self.iterations, iteration) or None
        return event

    def _write(self, event: Phase) -> None:
        self._reported = self._sent = time.monotonic()
        self.journal.write(event)

    def _send(self, event: Phase) -> None:
        """Send an event only over the live pipe."""
        self._sent = time.monotonic()
        event.time = time.time()
        self._live.send({"phase": event.model_dump(exclude_none=True)})

    def finished(self, reason: Reason, message: str) -> RunFinished:
        """Return the closing event."""
        self.tick()
        summary = {
            "success_before": self.progress.first_success,
            "success_after_warmup": self.progress.warmed_up_success,
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


def versions() -> dict[str, str]:
    """Return the versions of libraries that may affect the results."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    } | ({"commit": commit} if (commit := source_commit()) else {})
