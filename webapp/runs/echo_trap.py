"""Echo Trap on the site: recording of rewinds, and data of the panel with state, evidence and history.

The trainer computes signals and limits (trainer/metrics/trap_signals.py).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

from trainer.config.files import current_changes
from trainer.journal import events
from trainer.metrics.trap_signals import SIGNALS, Signal
from webapp.runs.models import Alarm, MetricPoint, Rewind, Run

MAX_ITERATIONS = 120
"""Number of iterations in the small curves of the evidence."""
ALARMS, REWINDS = 12, 6
SIGNAL_METRICS = tuple(name for sign in SIGNALS for name in (sign.name, sign.limit))
LEARNING = next(sign for sign in SIGNALS if sign.key == "learning")
NO_DATA = "unknown"
"""State before a signal has a value: there is nothing to judge before a run has trained."""
NO_SIGNAL = "no_signal"
"""State while no group teaches anything, so that the other signals say nothing about the training."""
STATE_WORDS = {NO_DATA: "No data yet", NO_SIGNAL: "Nothing to judge"}
"""Names of the states that are not those of an alarm."""
MEANING = {
    NO_DATA: "The signals are judged once the first iterations have been trained.",
    NO_SIGNAL: "All trajectories of a group get the same reward, so that no group teaches the policy anything. Read "
    "some of them: are their actions among those of the environment? If hardly any answer is valid, fine-tune the "
    "policy on demonstrations first (trainer sft); if all fail, choose easier puzzles or larger groups.",
    "healthy": "No signal has been beyond its limit for long.",
    "watch": "An early sign of a collapse: the policy may be converging on one way to think and act. The reward can "
    "still look good. Read some of the latest trajectories: are the thoughts of a group still different?",
    "trapped": "The policy has collapsed: its trajectories have become alike and the reward has fallen. More training "
    "of the same kind rarely helps; resume from an earlier checkpoint.",
}
"""Explanation of each state."""


# -- writing, inside the ingest's transaction -------------------------------------------------------------------------


def record_rewind(run: Run, event: events.Rewound) -> None:
    """Record a rewind and mark the alarms of the undone iterations, which stay in the history."""
    Alarm.objects.filter(run=run, iteration__gt=event.to_iteration).update(undone=True)
    Rewind.objects.create(
        run=run,
        seq=event.seq,
        number=event.number,
        from_iteration=event.from_iteration,
        to_iteration=event.to_iteration,
        changes=current_changes(event.changes),
        time=datetime.fromtimestamp(event.time, tz=UTC),
    )


# -- for the snapshot -------------------------------------------------------------------------------------------------


def history(run: Run) -> dict[str, Any]:
    """The snapshot's alarm, alarms and rewinds. Two queries."""
    newest = list(run.alarms.order_by("-seq").values("state", "message", "iteration", "undone")[:ALARMS])
    standing = next((alarm for alarm in newest if not alarm["undone"]), None)
    rewinds = run.rewinds.order_by("-seq").values("number", "from_iteration", "to_iteration", "changes")[:REWINDS]
    return {
        "alarm": standing and {key: standing[key] for key in ("state", "message", "iteration")},
        "alarms": newest[::-1],
        "rewinds": list(rewinds)[::-1],
    }


def evidence(run: Run) -> dict[str, list[list[float]]]:
    """{sign: [[iteration, value, limit], …]} of the newest iterations. One query."""
    values: dict[str, dict[int, float]] = defaultdict(dict)
    newest = MetricPoint.objects.filter(run=run, name__in=SIGNAL_METRICS, iteration__gt=run.iteration - MAX_ITERATIONS)
    for name, iteration, value in newest.order_by("iteration").values_list("name", "iteration", "value"):
        values[name][iteration] = value
    return {
        sign.key: [
            [iteration, value, values[sign.limit][iteration]]
            for iteration, value in values[sign.name].items()
            if iteration in values[sign.limit]
        ]
        for sign in SIGNALS
    }


# -- for the templates ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Evidence:
    """A signal as the server renders it; static/js/live/echo_trap.js renders later values the same way."""

    sign: Signal
    points: list[list[float]]

    @property
    def crossed(self) -> bool:
        return bool(self.points) and self.sign.crossed(*self.points[-1][1:])

    @property
    def words(self) -> str:
        """Value and limit, e.g. “62%, limit 50%”."""
        if not self.points:
            return "no data yet"
        _, value, limit = self.points[-1]
        side = "±" if self.sign.bad == "beyond" else ""
        return f"{number_words(self.sign, value)}, limit {side}{number_words(self.sign, limit)}"


def number_words(sign: Signal, value: float) -> str:
    """The value as text; halves are rounded up, as in the browser."""
    match sign.unit:
        case "share":
            text = f"{math.floor(100 * value + 0.5)}%"
        case "times":
            text = f"{math.floor(value + 0.5)}"
        case _:
            text = f"{math.floor(10 * value + 0.5) / 10:.1f}"
    return text.replace("-", "−")


def state_of(snapshot: Mapping[str, Any]) -> str:
    """The state to show: that of the last alarm, or whether there is anything to judge.

    static/js/live/echo_trap.js decides the same way.
    """
    state = snapshot["alarm"]["state"] if snapshot["alarm"] else NO_DATA
    if state in ("watch", "trapped"):
        return str(state)
    evidence = snapshot["evidence"]
    if (learning := evidence.get(LEARNING.key)) and LEARNING.crossed(*learning[-1][1:]):
        return NO_SIGNAL
    return "healthy" if state == "healthy" or any(evidence.values()) else NO_DATA


def panel(snapshot: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Template data of the panel: state, signals, explanations, and the configured reaction to a collapse."""
    state = state_of(snapshot)
    return {
        "state": state,
        "word": STATE_WORDS.get(state, state.capitalize()),
        "evidence": [Evidence(sign, snapshot["evidence"].get(sign.key, [])) for sign in SIGNALS],
        "meaning": MEANING,
        "answer": reaction_text(config),
    }


def reaction_text(config: Mapping[str, Any]) -> str:
    """The run's configured reaction to a collapse."""
    settings = config.get("echo_trap", {})
    match settings.get("action", "none"):
        case "stop":
            return "If it collapses: evaluate, save a checkpoint and stop."
        case "rewind":
            changes = ", ".join(f"{name} {value}" for name, value in settings.get("rewind_changes", {}).items())
            limit = settings.get("max_rewinds", 1)
            return (
                "If it collapses: rewind to the last good checkpoint and continue with other puzzles"
                f"{' and ' + changes.replace('*', '×') if changes else ''}, at most {limit} times; then stop."
            )
    return "If it collapses: keep running."


def bands(alarms: Sequence[Mapping[str, Any]], last: int) -> list[dict[str, Any]]:
    """Periods in the states watch and trapped, oldest first: state, from, to (both inclusive)."""
    result: list[dict[str, Any]] = []
    standing = [alarm for alarm in alarms if not alarm["undone"]]
    for alarm, following in zip_longest(standing, standing[1:]):
        if alarm["state"] != "healthy":
            end = max(alarm["iteration"], following["iteration"] - 1 if following else last)
            result.append({"state": alarm["state"], "from": alarm["iteration"], "to": end, "open": following is None})
    return result


def all_bands(run: Run) -> list[dict[str, Any]]:
    """As `bands`, of the whole run. One query."""
    alarms = Alarm.objects.filter(run=run, undone=False).order_by("seq").values("state", "iteration", "undone")
    return bands(list(alarms), run.iteration)


def bands_text(bands: Sequence[Mapping[str, Any]]) -> str:
    """Bands as text, e.g. “watch in iterations 12 to 20, trapped since iteration 21”."""
    parts = []
    for band in bands:
        several = band["to"] > band["from"]
        period = f"iterations {band['from']} to {band['to']}" if several else f"iteration {band['from']}"
        when = f"since iteration {band['from']}" if band["open"] else f"in {period}"
        parts.append(f"{band['state']} {when}")
    return ", ".join(parts)
