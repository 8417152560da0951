"""Phases of a step of verl, from the timers of its training loop."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from echoscope.recording.recorder import Recorder

TIMER = "marked_timer"
"""Name of verl's timer in the modules of its trainers: a context manager with a name and a dict of seconds."""
KINDS: Mapping[str, str] = {
    "gen": "rollout",
    "gen_max": "rollout",
    "old_log_prob": "old",
    "ref": "reference",
    "adv": "advantages",
    "update_critic": "update",
    "update_actor": "update",
    "update_weights": "weights",
    "param_sync": "weights",
    "testing": "evaluate",
    "save_checkpoint": "checkpoint",
}
"""Names of timers and the phase of the same work (docs/timeline.md); other timers are phases under their names."""
_WHOLE = ("step", "start_profile", "stop_profile")
"""Timers around others, and around what takes no time without a profiler."""

Timer = Callable[..., AbstractContextManager[Any]]


class StepPhases:
    """Records the outermost timers as phases of a run, until it is closed."""

    def __init__(self, run: Recorder) -> None:
        self._run, self._depth, self._closed = run, 0, False

    def close(self) -> None:
        """Record nothing from now on."""
        self._closed = True

    def timed(self, original: Timer) -> Timer:
        """Return a timer that does the same as verl's, and records the phase."""

        @contextmanager
        @functools.wraps(original)
        def timer(name: str, *args: Any, **kwargs: Any) -> Iterator[Any]:
            with self._phase(str(name).removeprefix("timing_s/")), original(name, *args, **kwargs) as entered:
                yield entered

        timer.without_echoscope = original  # type: ignore[attr-defined]
        return timer

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        if name in _WHOLE:
            yield
            return
        began, outermost = time.monotonic(), self._depth == 0
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if outermost and not self._closed:
                self._run.end_phase(KINDS.get(name, name), began)
