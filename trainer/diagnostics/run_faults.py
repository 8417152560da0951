"""Detector of faults of a run: of its environments, weights, numbers, texts and machine.

It reads each iteration's metrics, as the Echo Trap detector does, and is causal. That one asks whether the policy
collapses; this one whether what it is trained with works. A check compares an iteration with fixed limits or with the
run's own earlier values, never with other runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from trainer.journal.events import Fault, Faults
from trainer.metrics.fault_causes import CAUSES
from trainer.metrics.training_use import OWN_USES, TRAINED, USE_PREFIX

MEMORY = 12
"""Earlier values of a metric with which an iteration is compared."""
HOLD = 3
"""Iterations without evidence after which a fault is over."""
FAILED, TIMED_OUT = 0.05, 0.03  # shares of attempts
TOOLS, TEXT, TRUNCATED, REPETITION = 0.5, 0.1, 0.3, 0.5  # shares of calls, of responses, and of a thought's n-grams
RISE = 0.25  # by which a share rose above its usual value
NEARLY_ALL, NEARLY_NONE = 0.9, 0.02
MISMATCH, MISMATCH_RISE, MISMATCH_TIMES, MISMATCH_STALE = 0.1, 0.01, 10.0, 0.5  # k3, nats per token
WRONG_TOKENS = 0.05  # share of attempts
SLOWER = 4.0  # times slower than usual
SLOWEST = 0.4  # share of the median actor's speed
CLOCK_SECONDS = 60.0
LEAST_DISK, LEAST_MEMORY = 2**30, 2**28  # bytes
WATCHED = tuple(
    dict.fromkeys(
        (
            *(f"{USE_PREFIX}{use}" for use in OWN_USES),
            *(cause.metric for cause in CAUSES.values()),
            *("success/rate", "update/steps", "update/skipped_in_a_row", "policy/loss"),
        )
    )
)


class FaultHistory:
    """Newest values of the watched metrics, by iteration."""

    def __init__(self, max_staleness: int) -> None:
        self.max_staleness = max_staleness
        self.iteration = 0
        self.series: dict[str, list[tuple[int, float]]] = {}

    def add(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Add the metrics of an iteration."""
        self.iteration = iteration
        for name in WATCHED:
            if name in metrics:
                earlier = [entry for entry in self.series.get(name, []) if entry[0] < iteration]
                self.series[name] = [*earlier, (iteration, metrics[name])][-MEMORY - 1 :]

    def now(self, name: str) -> float | None:
        """Return the value of this iteration; None without one."""
        at, value = self.series.get(name, [(-1, 0.0)])[-1]
        return value if at == self.iteration else None

    def number(self, name: str) -> float:
        """Return the value of this iteration, 0 without one."""
        return self.now(name) or 0.0

    def usual(self, name: str, count: int = 2) -> float | None:
        """Return the median of earlier iterations; None with fewer than `count`."""
        earlier = [value for at, value in self.series.get(name, []) if at < self.iteration]
        return median(earlier) if len(earlier) >= count else None

    def lasts(self, name: str, count: int, holds: Callable[[float], bool]) -> bool:
        """True if the last `count` iterations all have a value for which the condition holds."""
        newest = self.series.get(name, [])[-count:]
        return len(newest) == count and newest[0][0] > self.iteration - count and all(holds(v) for _, v in newest)

    def rose(self, name: str, least: float, rise: float = RISE) -> bool:
        """True if a value reached a limit, and is higher by `rise` than usual."""
        value, usual = self.now(name), self.usual(name)
        return value is not None and usual is not None and value >= least and value >= usual + rise

    def attempts(self, *uses: str) -> tuple[float, float]:
        """Return the number of this iteration's attempts with one of these training uses, and their share of all."""
        total = sum(self.number(f"{USE_PREFIX}{use}") for use in OWN_USES)
        number = sum(self.number(f"{USE_PREFIX}{use}") for use in uses)
        return number, number / total if total else 0.0


Check = Callable[[FaultHistory], str]
"""Returns the evidence of a fault in this iteration, as a sentence; "" without any."""


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def _clock(history: FaultHistory) -> str:
    jump = history.number("system/clock_jump_seconds")
    direction = "forwards" if jump > 0 else "back"
    return f"The clock went {direction} by {abs(jump):.0f} s." if abs(jump) >= CLOCK_SECONDS else ""


def _disk(history: FaultHistory) -> str:
    free = history.now("system/disk_free_bytes")
    return f"{free / 2**20:,.0f} MiB are left." if free is not None and free < LEAST_DISK else ""


def _memory(history: FaultHistory) -> str:
    free = history.now("system/memory_available_bytes")
    return f"{free / 2**20:,.0f} MiB were left." if free is not None and free < LEAST_MEMORY else ""


def _puzzles(history: FaultHistory) -> str:
    share = history.number("rollout/repeated_groups")
    return f"{_percent(share)} of the puzzles were played before, a few iterations ago." if share >= 0.5 else ""


def _timeouts(history: FaultHistory) -> str:
    number, share = history.attempts("timeout")
    return f"{number:.0f} attempts ({_percent(share)}) timed out." if share >= TIMED_OUT else ""


def _errors(history: FaultHistory) -> str:
    number, share = history.attempts("environment_error")
    return f"{number:.0f} attempts ({_percent(share)}) ended with an error." if number > 1 and share >= FAILED else ""


def _tools(history: FaultHistory) -> str:
    if not history.rose("tools/failed_share", TOOLS):
        return ""
    now, usual = history.number("tools/failed_share"), history.usual("tools/failed_share") or 0.0
    return f"{_percent(now)} of the calls failed, after {_percent(usual)} before."


def _slow_actor(history: FaultHistory) -> str:
    share = history.number("cluster/slowest_actor")
    slow = history.lasts("cluster/slowest_actor", 2, lambda value: value < SLOWEST)
    return f"The slowest actor samples at {_percent(share)} of the median speed." if slow else ""


def _slow(history: FaultHistory) -> str:
    name = "throughput/tokens_per_second"
    usual = history.usual(name, 4)
    if not usual or not history.lasts(name, 2, lambda value: value * SLOWER < usual):
        return ""
    return f"{history.number(name):,.0f} tokens/s, after {usual:,.0f} before."


def _wrong_tokens(history: FaultHistory) -> str:
    share = history.number("mismatch/wrong_tokens")
    return f"It is so in {_percent(share)} of the attempts." if share >= WRONG_TOKENS else ""


def _stale(history: FaultHistory) -> str:
    behind = history.number("rollout/staleness_max")
    if behind <= history.max_staleness:
        return ""
    updates = "update" if behind == 1 else "updates"
    return f"Tokens were sampled by weights that were {behind:.0f} {updates} behind; {history.max_staleness} may be."


def _mismatch(history: FaultHistory) -> str:
    k3, usual = history.number("mismatch/k3"), history.usual("mismatch/k3", 3)
    if history.number("rollout/staleness_max"):
        found = k3 >= MISMATCH_STALE
    else:
        rose = usual is not None and k3 >= MISMATCH_RISE and k3 >= MISMATCH_TIMES * usual
        found = k3 >= MISMATCH or rose
    before = "" if usual is None else f", after {usual:.2g} before"
    return f"Their divergence (k3) is {k3:.2g} nats a token{before}." if found else ""


def _learning_rate(history: FaultHistory) -> str:
    zero = history.lasts("policy/learning_rate", 2, lambda value: value == 0.0)
    return "It was zero in two iterations in a row." if zero else ""


def _broken_gradient(history: FaultHistory) -> str:
    steps = history.number("update/skipped")
    whole = history.now("update/skipped_in_a_row") is not None  # nothing to learn from, which is another cause
    if steps and not whole:
        return f"{steps:.0f} steps were left out because their loss or gradient was not finite."
    learns = history.number(f"{USE_PREFIX}{TRAINED}") > 0 and history.now("update/steps") is not None
    missing = learns and history.now("policy/loss") is None
    return "The loss was not finite." if missing else ""


def _no_gradient(history: FaultHistory) -> str:
    trained = history.number(f"{USE_PREFIX}{TRAINED}")
    zero = trained and history.lasts("policy/grad_norm", 2, lambda value: value == 0.0)
    return f"Its norm is zero, although {trained:.0f} attempts had something to teach." if zero else ""


def _clipped(history: FaultHistory) -> str:
    number, _ = history.attempts("clipped")
    taught = number + history.number(f"{USE_PREFIX}{TRAINED}")
    found = number > 1 and number >= taught / 2
    return f"All tokens of {number:.0f} of {taught:.0f} attempts were clipped." if found else ""


def _garbled(history: FaultHistory) -> str:
    name = "format/garbled_share"
    if history.rose(name, TEXT, TEXT) or history.lasts(name, 3, lambda share: share >= 0.5):
        return f"{_percent(history.number(name))} of the responses contain such characters."
    return ""


def _repeated(history: FaultHistory) -> str:
    name = "diversity/think_repetition"
    if not history.rose(name, REPETITION):
        return ""
    now, usual = history.number(name), history.usual(name) or 0.0
    return f"{_percent(now)} of a thought repeats its earlier words, after {_percent(usual)} before."


def _truncation(history: FaultHistory) -> str:
    name = "length/truncated_share"
    share = _percent(history.number(name))
    if history.rose(name, TRUNCATED):
        return f"{share} of the responses were, after {_percent(history.usual(name) or 0.0)} before."
    always = history.lasts(name, 3, lambda value: value >= NEARLY_ALL)
    return f"{share} of the responses were, as in the iterations before." if always else ""


def _no_answer(history: FaultHistory) -> str:
    never = history.lasts("format/valid_rate", 3, lambda share: share <= NEARLY_NONE)
    return "In three iterations in a row hardly any turn had a valid format." if never else ""


def _no_signal(history: FaultHistory) -> str:
    solved = history.number("success/rate") >= NEARLY_ALL
    equal = history.lasts("reward/zero_std_share", 3, lambda share: share >= NEARLY_ALL)
    if solved or not equal:
        return ""
    _, share = history.attempts("equal_rewards", "resampled")
    share = share or history.number("reward/zero_std_share")
    return f"{_percent(share)} of the attempts taught nothing for this reason, in three iterations in a row."


CHECKS: dict[str, Check] = {
    "clock_jump": _clock,
    "low_disk": _disk,
    "low_memory": _memory,
    "repeated_puzzles": _puzzles,
    "environment_timeouts": _timeouts,
    "environment_errors": _errors,
    "tool_failures": _tools,
    "slow_actor": _slow_actor,
    "slow_rollout": _slow,
    "wrong_tokens": _wrong_tokens,
    "stale_weights": _stale,
    "mismatch": _mismatch,
    "no_learning_rate": _learning_rate,
    "broken_gradient": _broken_gradient,
    "no_gradient": _no_gradient,
    "clipped": _clipped,
    "garbled_text": _garbled,
    "repeated_text": _repeated,
    "truncation": _truncation,
    "no_valid_answer": _no_answer,
    "no_signal": _no_signal,
}
"""A new cause is a function and an entry here, with its description in trainer/metrics/fault_causes.py."""


class RunFaults:
    """Detector that takes the metrics of every iteration in order.

    Args:
        max_staleness: updates that the weights of a sampled token may be behind.
    """

    def __init__(self, max_staleness: int = 0) -> None:
        self.history = FaultHistory(max_staleness)
        self.present: dict[str, Fault] = {}
        self._seen: dict[str, int] = {}  # iteration of the newest evidence, by present cause

    def update(self, iteration: int, metrics: Mapping[str, float]) -> Faults | None:
        """Add one iteration's metrics. Returns all present faults if their causes changed; otherwise None."""
        self.history.add(iteration, metrics)
        before = set(self.present)
        for cause, check in CHECKS.items():
            if text := check(self.history):
                since = self.present[cause].since if cause in self.present else iteration
                self.present[cause] = Fault(cause=cause, since=since, text=text)
                self._seen[cause] = iteration
            elif cause in self.present and iteration - self._seen[cause] >= HOLD:
                del self.present[cause], self._seen[cause]
        return None if set(self.present) == before else self.event(iteration)

    def event(self, iteration: int) -> Faults:
        """Return the event with all present faults, in the order in which they began."""
        order = list(CHECKS)
        faults = sorted(self.present.values(), key=lambda fault: (fault.since, order.index(fault.cause)))
        return Faults(iteration=iteration, present=faults)

    def state_dict(self) -> dict[str, Any]:
        """Return the state as JSON-serialisable data, for a checkpoint."""
        return {
            "series": {name: [list(entry) for entry in entries] for name, entries in self.history.series.items()},
            "present": [fault.model_dump() for fault in self.present.values()],
            "seen": dict(self._seen),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state from `state_dict`; an empty one, of an earlier version, restores nothing."""
        series = state.get("series", {})
        self.history.series = {name: [(at, value) for at, value in entries] for name, entries in series.items()}
        self.present = {fault["cause"]: Fault.model_validate(fault) for fault in state.get("present", [])}
        self._seen = dict(state.get("seen", {}))
