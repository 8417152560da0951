"""Echo Trap detector: classifies a run as healthy, on the way to collapse, or collapsed, from each iteration's metrics.

It is causal: its state at an iteration does not depend on later iterations.

A collapse has an order (arXiv 2504.20073): trajectories of a group stop differing in reward while the mean is stable,
entropy leaves its steady decay, the reward falls, gradients spike. Small policies under too much pressure first lose
the format of their answers, within a few iterations or a single one; others decline so slowly that only a comparison
with their best shows it. A single early sign means only `watch`. `trapped` means a fallen reward after an early sign,
spiking gradients after lost spread, success that has slowly sunk to half of its best, no success at all for more than
half a window, or lost spread that is gone: attempts that agree without solving most puzzles have nothing to learn from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from trainer.diagnostics.metric_history import MetricHistory
from trainer.diagnostics.signal_checks import CHECKS, REWARD, SPREAD, WATCHED, Reading, SignalMemory
from trainer.journal.events import Alarm
from trainer.metrics.trap_signals import LIMIT, PREFIX

State = Literal["healthy", "watch", "trapped"]

WINDOW = 10  # iterations that the fast averages cover
MEMORY = 3  # an early sign may precede a fall of the reward by this many windows
HALVED = 0.5  # share of its best success at which a slow decline is a collapse
GONE = 0.3  # share of a window's iterations in which rewards of any group differ, once spread is lost
CALM = 2  # windows without any sign until a watch ends
REMEDY = (
    "The policy may be broken: return to an earlier checkpoint with a lower optimizer.policy_lr or a KL penalty "
    "(algorithm.kl_coef)."
)


def is_safe_to_resume(state: Mapping[str, Any]) -> bool:
    """True if a `state_dict` shows no warning signs, not even a first one."""
    return state.get("state") == "healthy" and not state.get("low_spread")


class EchoTrap:
    """Detector that takes the metrics of every iteration in order and returns an alarm whenever its state changes."""

    def __init__(self, window: int = WINDOW) -> None:
        self.window = window
        self.state: State = "healthy"
        series = {name: MetricHistory(window) for name in WATCHED}
        self.memory = SignalMemory(window, series)
        self.since: int | None = None  # iteration of the earliest current sign, even if too short to count
        self.lowest = math.inf  # minimum of the fast reward since the run was trapped
        self.readings: dict[str, Reading] = {}  # readings of the last update, by signal

    def update(self, iteration: int, metrics: Mapping[str, float], fault: str = "") -> Alarm | None:
        """Add one iteration's metrics; missing metrics are skipped.

        Args:
            fault: the common fault of turns without a valid format, for the text of an alarm.
        Returns:
            An alarm if the state changes, with the evidence as text and numbers; otherwise None.
        """
        memory = self.memory
        memory.fault = fault
        memory.add(iteration, metrics)
        self.readings = {key: reading for key, check in CHECKS.items() if (reading := check.read(memory)) is not None}
        present = {key: reading for key, reading in self.readings.items() if reading.present}
        signs = {key: reading for key, reading in present.items() if not CHECKS[key].shown}
        memory.seen |= dict.fromkeys(signs, iteration)
        state = self._next_state(iteration, signs)
        if signs or memory.low_spread:
            self.since = iteration if self.since is None else self.since
        elif state == "healthy":
            self.since = None
        if state == "healthy" and not signs:
            memory.before = {}
        if state == self.state:
            return None
        previous, self.state = self.state, state
        if state == "trapped":
            self.lowest = memory.series[REWARD].fast
        message, evidence = self._evidence(previous, signs if state == "healthy" else present)
        if state == "healthy":
            memory.seen = {}
        return Alarm(iteration=iteration, state=state, message=message, evidence=evidence)

    def statistics(self) -> dict[str, float]:
        """Return the value and limit of each signal at the last update, as metrics; omit signals without a reading."""
        return {
            f"{PREFIX}{key}{ending}": number
            for key, reading in self.readings.items()
            for ending, number in (("", reading.value), (LIMIT, reading.limit))
        }

    def sound_until(self, iteration: int) -> int:
        """Return the last iteration with safe weights: half a window before the first sign, or before now."""
        return (iteration + 1 if self.since is None else self.since) - max(1, self.window // 2)

    def _next_state(self, iteration: int, signs: Mapping[str, Reading]) -> State:
        seen = self.memory.seen

        def recent(sign: str) -> bool:
            return sign in seen and iteration - seen[sign] <= MEMORY * self.window

        if self.state == "trapped":
            return self._after_trap(signs)
        early = any(recent(key) for key, check in CHECKS.items() if check.early)
        halved = "success" in signs and signs["success"].value < HALVED
        gone = "spread" in signs and "learning" in self.readings and self.readings["learning"].value <= GONE
        if halved or gone or ("reward" in signs and early) or ("gradient" in signs and recent("spread")):
            return "trapped"
        if any(CHECKS[sign].watch for sign in signs):
            return "watch"
        last = max(seen.values(), default=-math.inf)
        return self.state if iteration - last < CALM * self.window else "healthy"

    def _after_trap(self, signs: Mapping[str, Reading]) -> State:
        """Nothing changes any more at the bottom of a collapse: only a recovering reward ends it."""
        reward = self.memory.series[REWARD]
        self.lowest = min(self.lowest, reward.fast)
        recovered = reward.fast > (self.memory.before.get(REWARD, reward.slow) + self.lowest) / 2 + reward.noise
        return "healthy" if recovered and not signs else "trapped"

    def _evidence(self, previous: State, signs: Mapping[str, Reading]) -> tuple[str, dict[str, float]]:
        """Describe the current signs in one or two sentences and in numbers."""
        text = "; ".join(reading.text for reading in signs.values())
        evidence = {name: value for reading in signs.values() for name, value in reading.evidence.items()}
        match self.state:
            case "watch":
                broke = any(reading.broke for reading in signs.values())
                return f"{text[:1].upper()}{text[1:]}. {REMEDY if broke else 'A collapse may follow.'}", evidence
            case "trapped":
                return f"Collapse: {text}. Runs rarely recover: continue from an earlier checkpoint.", evidence
        series = self.memory.series
        if previous == "trapped":
            reward = series[REWARD].fast
            return f"The mean reward is back at {reward:.2f}.", {"reward": reward}
        return f"No sign of a collapse for {CALM * self.window} iterations.", {"in_group_std": series[SPREAD].fast}

    def state_dict(self) -> dict[str, Any]:
        """Return the state as JSON-serialisable data, for a checkpoint."""
        memory = self.memory
        return {
            "state": self.state,
            "series": {name: series.state_dict() for name, series in memory.series.items()},
            "seen": dict(memory.seen),
            "low_spread": memory.low_spread,
            "since": self.since,
            "before": dict(memory.before),
            "spikes": list(memory.spikes),
            "lowest": self.lowest if math.isfinite(self.lowest) else None,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state from `state_dict`."""
        memory = self.memory
        self.state = state["state"]
        for name in memory.series.keys() & state["series"].keys():  # an older checkpoint may lack a metric
            memory.series[name].load_state_dict(state["series"][name])
        memory.seen, memory.before = dict(state["seen"]), dict(state["before"])
        memory.low_spread, memory.spikes = state["low_spread"], list(state["spikes"])
        self.since = state.get("since")
        self.lowest = math.inf if state["lowest"] is None else state["lowest"]
