"""Backtest of the Echo Trap detector on recorded runs: collapse, lead time and false alarms, in hindsight."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

from trainer.diagnostics.echo_trap import WINDOW, EchoTrap
from trainer.diagnostics.signal_checks import REWARD, SUCCESS
from trainer.journal.events import Alarm, Metrics, RunStarted
from trainer.journal.reader import parse_line
from trainer.metrics.statistics import wilson_interval
from trainer.metrics.trap_signals import SIGNALS

SPAN = 10  # window of the average that is searched for a collapse
HORIZON = 50  # an alarm up to this many iterations before a collapse counts: the paper's signs come 30 to 50 early
LASTING = 4  # low iterations that must follow the fall
CLEAR = 2.0  # smallest fall that counts, in deviations of a single iteration
_SIGNALS = {signal.key: signal.title for signal in SIGNALS if signal.key != "learning"}
NEEDED = (b'"type":"metrics"', b'"type":"run_started"')


@dataclass(frozen=True)
class BacktestResult:
    """A run and its detector's alarms, in hindsight.

    `alarms` are the changes of state in order. `collapse` is the first iteration of the collapse, None for a run
    without one. `lead` is the number of iterations between the detector's final departure from `healthy` and the
    collapse (negative: the collapse came first; None: the detector stayed `healthy`, or there was no collapse).
    `false_alarms` counts the alarms that were not followed by a collapse. `signs` are the iterations at which each
    signal was beyond its limit, in order, without signals that never were.
    """

    iterations: int
    alarms: list[Alarm]
    collapse: int | None
    lead: int | None
    false_alarms: int
    signs: dict[str, list[int]]

    def announced_by(self, signal: str) -> bool:
        """True if the signal crossed its limit at most HORIZON iterations before the collapse, or ever without one."""
        end = math.inf if self.collapse is None else self.collapse
        start = -math.inf if self.collapse is None else self.collapse - HORIZON
        return any(start <= iteration < end for iteration in self.signs.get(signal, []))


def backtest(metrics: Mapping[int, Mapping[str, float]], window: int = WINDOW) -> BacktestResult:
    """Replay a run's metrics through a new detector and compare its alarms with the run's outcome.

    Args:
        metrics: values by name for each iteration, in order.
        window: the detector's.
    """
    trap = EchoTrap(window)
    alarms, signs = [], dict[str, list[int]]()
    for iteration, values in metrics.items():
        if alarm := trap.update(iteration, values):
            alarms.append(alarm)
        for signal, reading in trap.readings.items():
            if reading.present:
                signs.setdefault(signal, []).append(iteration)
    collapse = find_collapse(metrics)
    lead, false = None, 0
    for first, last in _alarm_intervals(alarms, max(metrics, default=0)):
        if collapse is None or first > collapse + HORIZON or last < collapse - HORIZON:
            false += 1
        elif lead is None:
            lead = collapse - first
    return BacktestResult(len(metrics), alarms, collapse, lead, false, signs)


def _alarm_intervals(alarms: Sequence[Alarm], end: int) -> Iterator[tuple[int, int]]:
    """Yield the intervals outside `healthy`: the first iteration, and the last one before the run was healthy again."""
    since: int | None = None
    for alarm in alarms:
        if alarm.state == "healthy" and since is not None:
            yield since, alarm.iteration - 1
            since = None
        elif alarm.state != "healthy" and since is None:
            since = alarm.iteration
    if since is not None:
        yield since, end


def find_collapse(metrics: Mapping[int, Mapping[str, float]]) -> int | None:
    """Find the iteration at which a run collapsed without recovery; None if it did not.

    The reward's average has fallen by more than half of its whole range below its best, or the success rate's average
    below half of its best, and neither recovers; the fall exceeds the noise, and lasts.
    """
    reward = {iteration: values[REWARD] for iteration, values in metrics.items() if REWARD in values}
    success = {iteration: values[SUCCESS] for iteration, values in metrics.items() if SUCCESS in values}
    collapses = [
        _last_fall(list(reward), list(reward.values()), of_range=True),
        _last_fall(list(success), list(success.values()), of_range=False),
    ]
    return min((iteration for iteration in collapses if iteration is not None), default=None)


def _last_fall(iterations: Sequence[int], values: Sequence[float], *, of_range: bool) -> int | None:
    """Find the first iteration from which the average stays below the middle of its best and lowest values (or 0)."""
    averages = list(_averages(values))
    if len(averages) < LASTING:
        return None
    best = max(averages)
    limit = (best + (min(averages) if of_range else 0.0)) / 2
    after = averages.index(best)
    high = max(n for n in range(after, len(averages)) if averages[n] >= limit)
    steps = [abs(later - earlier) for earlier, later in pairwise(values)]
    noise = 1.4826 * median(steps) / math.sqrt(2)  # of a single iteration, independent of the trend
    left = averages[high + 1 :]
    if len(left) < LASTING or best - fmean(left) < CLEAR * noise:
        return None
    return iterations[high + 1]


def _averages(values: Sequence[float]) -> Iterator[float]:
    """Yield exponential averages over SPAN values, unbiased from the first one."""
    keep, total, weight = 1 - 2 / (SPAN + 1), 0.0, 0.0
    for value in values:
        total, weight = keep * total + value, keep * weight + 1
        yield total / weight


def read_metrics(journal: Path) -> tuple[dict[int, dict[str, float]], int]:
    """Return metrics by name for each iteration of a run, without superseded ones, and its detector's window.

    A name that ends in .gz is of a compressed journal.

    Raises:
        JournalError: a line is not an event.
        ValueError: the compressed file is damaged.
    """
    try:
        return _read_metrics(journal)
    except (EOFError, zlib.error) as error:
        raise ValueError(f"the compressed journal is damaged or cut off: {error}") from error


def _read_metrics(journal: Path) -> tuple[dict[int, dict[str, float]], int]:
    metrics: dict[int, dict[str, float]] = {}
    window = WINDOW
    with gzip.open(journal) if journal.suffix == ".gz" else journal.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n") or not any(kind in line[:80] for kind in NEEDED):
                continue
            match parse_line(line, number):
                case RunStarted() as started:
                    metrics = {i: values for i, values in metrics.items() if i <= started.from_iteration}
                    window = started.config.get("echo_trap", {}).get("window", WINDOW)  # a setting of earlier runs
                case Metrics() as event if event.iteration > 0:
                    metrics.setdefault(event.iteration, {}).update(event.values)
    return metrics, window


def table(rows: Mapping[str, BacktestResult]) -> str:
    """Format the results as text: one line per run, followed by its alarms; then one line per signal."""
    lines = [f"{'run':<32} {'iterations':>10} {'collapse':>9} {'lead':>6} {'false alarms':>13}"]
    for name, result in rows.items():
        collapse = "–" if result.collapse is None else str(result.collapse)
        lead = "–" if result.lead is None else str(result.lead)
        label = name if len(name) <= 32 else f"…{name[-31:]}"
        lines.append(f"{label:<32} {result.iterations:>10} {collapse:>9} {lead:>6} {result.false_alarms:>13}")
        lines += [f"    {alarm.iteration:>5}  {alarm.state:<8} {alarm.message}" for alarm in result.alarms]
    collapsed = [result for result in rows.values() if result.collapse is not None]
    leads = sorted(result.lead for result in collapsed if result.lead is not None)
    middle = f", lead time {leads[len(leads) // 2]} (median)" if leads else ""
    false = sum(result.false_alarms for result in rows.values())
    lines.append(
        f"{len(collapsed)} of {len(rows)} runs collapsed, {len(leads)} of them announced{middle}; "
        f"{false} false alarm{'' if false == 1 else 's'}"
    )
    healthy = [result for result in rows.values() if result.collapse is None]
    before, without = f"before {len(collapsed)} collapses", f"in {len(healthy)} runs without one"
    lines += ["", f"{'signal':<32} {before:>28} {without:>28}"]
    for signal, title in _SIGNALS.items():
        counts = (_count(signal, collapsed), _count(signal, healthy))
        lines.append(f"{title:<32} {counts[0]:>28} {counts[1]:>28}")
    return "\n".join(lines)


def _count(signal: str, results: Sequence[BacktestResult]) -> str:
    """Count the runs in which the signal was beyond its limit, with the 95% interval of their share."""
    if not results:
        return "–"
    count = sum(result.announced_by(signal) for result in results)
    low, high = wilson_interval(count, len(results))
    return f"{count} ({100 * low:.0f}–{100 * high:.0f}%)"
