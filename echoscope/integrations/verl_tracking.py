"""Logger for verl's `Tracking`: records metrics of every step, what was sampled in it, and the end of the training.

Trainings in Ray processes, such as verl's, load it by the plugin (`verl_plugin`). In a single process:

from verl.utils.tracking import Tracking
from echoscope.integrations.verl_tracking import install

install(Tracking, folder="runs/sft")  # before the trainer starts, with trainer.logger=["console","echoscope"]

`verl_watch` records attempts, tokens, what the update learnt from and the phases of a step.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import echoscope.recording.recorder as recorder
from echoscope.integrations.metric_names import with_standard_names
from echoscope.integrations.verl_watch import TrainerWatch, WatchLimits, watch_caller
from echoscope.recording.harmless import harmless, warn
from echoscope.recording.json_values import as_text
from echoscope.recording.recorder import Recorder

BACKEND = "echoscope"
ADVICE = "Check folder, url and token (docs/other-trainers.md), or leave the backend out of trainer.logger."


class EchoscopeLogger:
    """A logger in verl's `Tracking.logger`: `log` with data and step, `finish` at the end.

    No failure in it reaches the trainer: it becomes a RuntimeWarning.
    """

    def __init__(self, run: Recorder, planned: int = 0, watch: TrainerWatch | None = None) -> None:
        """
        Args:
            planned: steps of the whole training; 0 if unknown.
            watch: reads what the trainer samples and learns; None: only metrics are recorded.
        """
        self.run = run
        self.warnings = run.warnings
        self._watch = watch
        self._planned, self._last = planned, 0
        self._finished = False

    @harmless
    def log(self, data: Mapping[str, Any], step: int) -> None:
        """Record the numbers of a step, also under standard names if known; tables and texts are left out.

        What the trainer sampled since the last step is recorded before.
        """
        self._last = max(self._last, int(step))
        sampled = (self._watch.record(int(step)) if self._watch else None) or {}
        self.run.log({**sampled, **with_standard_names(data)}, iteration=step)

    @harmless
    def finish(self, exit_code: int = 0) -> None:
        """End the run, as failed unless the exit code is 0; a second call changes nothing."""
        if self._finished:
            return
        self._end()
        if exit_code == 0:
            self.run.finish()
        else:
            self.run.finish(reason="error", message=f"The training of verl failed (exit code {exit_code}).")

    @harmless
    def abandon(self) -> None:
        """End a run whose trainer has not called finish(): complete if its last planned step was logged.

        Older trainers of verl always end like this, successful or not.
        """
        if self._finished:
            return
        if 0 < self._planned <= self._last:
            self.finish()
            return
        self._end()
        planned = f" of {self._planned}" if self._planned else ""
        self.run.finish(
            reason="interrupted",
            message=f"The trainer ended after step {self._last}{planned} and did not report whether it had succeeded.",
        )

    def _end(self) -> None:
        self._finished = True
        if self._watch:
            self._watch.close()


def install(
    tracking: type,
    *,
    folder: str | Path | None = None,
    url: str | None = None,
    token: str | None = None,
    limits: WatchLimits | None = None,
) -> None:
    """Teach verl's class Tracking the backend `echoscope`, in this process; a second call replaces the first.

    Args:
        tracking: verl.utils.tracking.Tracking.
        folder, url, token: as in echoscope.init.
        limits: how many attempts are recorded.
    Raises:
        TypeError: the class has no list of supported backends; it is another version of verl.
    """
    if not isinstance(getattr(tracking, "supported_backend", None), list):
        raise TypeError(
            f"{tracking.__module__}.{tracking.__qualname__} has no list supported_backend: pass "
            "verl.utils.tracking.Tracking, or call EchoscopeLogger.log from your own loop"
        )
    kind: Any = tracking
    original_init = getattr(kind.__init__, "without_echoscope", kind.__init__)

    def begin(
        self: Any, project_name: str, experiment_name: str, default_backend: Any = "console", config: Any = None
    ) -> None:
        backends = [default_backend] if isinstance(default_backend, str) else list(default_backend)
        original_init(self, project_name, experiment_name, [name for name in backends if name != BACKEND], config)
        if BACKEND not in backends:
            return
        try:
            settings = _plain(config)
            run = recorder.init(
                f"{project_name} · {experiment_name}", config=settings, folder=folder, url=url, token=token
            )
            watch = watch_caller(run, sys._getframe(1), limits or WatchLimits())
            self.logger[BACKEND] = EchoscopeLogger(run, _planned_steps(settings), watch)
        except Exception as error:  # noqa: BLE001 - whatever it is, the training goes on
            why = f"{as_text(error)} ({type(error).__name__})"
            warn(f"Nothing of this training of verl is recorded: {why}. {ADVICE}")

    begin.without_echoscope = original_init  # type: ignore[attr-defined]
    kind.__init__ = begin
    if BACKEND not in kind.supported_backend:
        kind.supported_backend = [*kind.supported_backend, BACKEND]
    for name, wrap in (("finish", _finishing), ("__del__", _ending)):
        method = getattr(kind, name, None)
        if (method is not None or name == "__del__") and not hasattr(method, "without_echoscope"):
            setattr(kind, name, wrap(method))


def _finishing(original_finish: Any) -> Any:
    def finish(self: Any, exit_code: int = 0) -> None:
        try:
            if logger := _find_logger(self):
                logger.finish(exit_code)
        finally:
            original_finish(self, exit_code)

    finish.without_echoscope = original_finish  # type: ignore[attr-defined]
    return finish


def _ending(original_end: Any) -> Any:
    """Run verl's __del__ second, because it calls finish() with the exit code 0 whatever happened."""

    def end(self: Any) -> None:
        try:
            if logger := _find_logger(self):
                logger.abandon()
        finally:
            if original_end is not None:
                original_end(self)

    end.without_echoscope = original_end  # type: ignore[attr-defined]
    return end


def _find_logger(tracking: Any) -> EchoscopeLogger | None:
    loggers = getattr(tracking, "logger", None)
    return loggers.get(BACKEND) if isinstance(loggers, Mapping) else None


def _planned_steps(settings: Mapping[str, Any]) -> int:
    """Return the steps of the whole training from the settings, to which the trainer may have added them."""
    for path in (("trainer",), ("actor_rollout_ref", "actor", "optim")):
        part: Any = settings
        for name in path:
            part = part.get(name) if isinstance(part, Mapping) else None
        steps = part.get("total_training_steps") if isinstance(part, Mapping) else None
        if isinstance(steps, int) and steps > 0:
            return steps
    return 0


def _plain(config: Any) -> dict[str, Any]:
    """Return the configuration as a dict; OmegaConf's references are resolved."""
    if config is None:
        return {}
    if type(config).__module__.startswith("omegaconf"):
        from omegaconf import OmegaConf

        config = OmegaConf.to_container(config, resolve=True)
    return dict(config)
