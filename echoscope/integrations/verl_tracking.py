"""Logger of verl's `Tracking`: metrics of every step, and samples of the validation.

from verl.utils.tracking import Tracking
from echoscope.integrations.verl_tracking import install

install(Tracking, folder="runs/ppo")  # before the trainer starts, with trainer.logger=["console","echoscope"]

What was sampled comes from the files of `trainer.rollout_data_dir`: python -m echoscope import DIR --format verl.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import echoscope.recording.recorder as recorder
from echoscope.integrations.metric_names import with_standard_names
from echoscope.recording.recorder import Recorder

BACKEND = "echoscope"


class EchoscopeLogger:
    """A logger in verl's `Tracking.logger`: `log` with data and step, `finish` at the end."""

    def __init__(self, run: Recorder) -> None:
        self.run = run
        self._finished = False

    def log(self, data: Mapping[str, Any], step: int) -> None:
        """Record the numbers of a step, known ones under standard names, too; tables and texts are left out."""
        self.run.log(with_standard_names(data), iteration=step)

    def finish(self) -> None:
        """End the run; a second call changes nothing."""
        if not self._finished:
            self._finished = True
            self.run.finish()


def install(
    tracking: type, *, folder: str | Path | None = None, url: str | None = None, token: str | None = None
) -> None:
    """Teach verl's class Tracking the backend `echoscope`, in this process; a second call replaces the first.

    Args:
        tracking: verl.utils.tracking.Tracking.
        folder, url, token: as those of echoscope.init.
    Raises:
        TypeError: the class has no list of supported backends, as of another version of verl.
    """
    if not isinstance(getattr(tracking, "supported_backend", None), list):
        raise TypeError(
            f"{tracking.__module__}.{tracking.__qualname__} has no list supported_backend: pass "
            "verl.utils.tracking.Tracking, or call EchoscopeLogger.log from your own loop"
        )
    kind: Any = tracking
    before = getattr(kind.__init__, "without_echoscope", kind.__init__)

    def begin(
        self: Any, project_name: str, experiment_name: str, default_backend: Any = "console", config: Any = None
    ) -> None:
        backends = [default_backend] if isinstance(default_backend, str) else list(default_backend)
        before(self, project_name, experiment_name, [name for name in backends if name != BACKEND], config)
        if BACKEND in backends:
            run = recorder.init(
                f"{project_name} · {experiment_name}", config=_plain(config), folder=folder, url=url, token=token
            )
            self.logger[BACKEND] = EchoscopeLogger(run)

    begin.without_echoscope = before  # type: ignore[attr-defined]
    kind.__init__ = begin
    if BACKEND not in kind.supported_backend:
        kind.supported_backend = [*kind.supported_backend, BACKEND]
    ended = getattr(kind, "__del__", None)
    if getattr(ended, "without_echoscope", None) is None:
        kind.__del__ = _ending(ended)


def _ending(before: Any) -> Any:
    def end(self: Any) -> None:
        logger = getattr(self, "logger", {}).get(BACKEND)
        if logger is not None:
            logger.finish()
        if before is not None:
            before(self)

    end.without_echoscope = before or True  # type: ignore[attr-defined]
    return end


def _plain(config: Any) -> dict[str, Any]:
    """The configuration as a dict, that of OmegaConf with its references resolved."""
    if config is None:
        return {}
    if type(config).__module__.startswith("omegaconf"):
        from omegaconf import OmegaConf

        config = OmegaConf.to_container(config, resolve=True)
    return dict(config)
