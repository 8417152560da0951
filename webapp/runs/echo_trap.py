"""Echo Trap on the site: recording of rewinds, and the panel's data with state, evidence and history.

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

from trainer.config.rewind import MAX_REWINDS
from trainer.journal import events
from trainer.metrics.trap_signals import SIGNALS, Signal
from webapp.core.formatting import join_items
from webapp.runs.condition import LABELS
from webapp.runs.models import Alarm, MetricPoint, Rewind, Run

MAX_ITERATIONS = 120
"""Number of iterations in the small curves of the evidence; for other trainers' runs, logged iterations only."""
ALARMS, REWINDS = 12, 6
SIGNAL_METRICS = tuple(name for sign in SIGNALS for name in (sign.name, sign.limit))
LEARNING = next(sign for sign in SIGNALS if sign.key == "learning")
NO_DATA = "unknown"
"""State before a signal has a value, so that there is nothing to judge yet."""
NO_SIGNAL = "no_signal"
"""State while no group of attempts teaches anything, so that the other signals are meaningless."""
NOT_RECORDED = "not_recorded"
"""State of another trainer's run without the metrics in which a collapse shows early."""
TOO_SHORT = "too_short"
"""State of a run that ended before a signal had a value."""
STATE_LABELS = {
    NO_DATA: "No data yet",
    **dict.fromkeys((NO_SIGNAL, NOT_RECORDED, TOO_SHORT), "Nothing to judge"),
    "healthy": "Healthy",
    **LABELS,
}
OUTCOME_METRICS = ("reward/mean", "success/rate")
EARLY_METRICS = ("reward/in_group_std", "entropy/mean", "policy/grad_norm")
"""To be judged, another trainer's run must record one of these metrics; the outcomes show the consequences."""
PARTIAL_SIGNALS = ("reward", "success", "template", "format", "echo", "information", "claims")
"""Signals that cannot show that a run is healthy: runs that learn nothing keep their format, too, and the other ones
never raise an alarm by themselves."""
MEANING = {
    NO_DATA: "The signals are judged once the first iterations have been trained.",
    NO_SIGNAL: "All attempts of a group get the same reward, so that no group teaches the policy anything. Read "
    "some of them: are their actions among those of the environment? If hardly any answer is valid, begin with steps "
    "on demonstrations (sft.warmup_steps); if all fail, choose easier puzzles or larger groups.",
    NOT_RECORDED: "The site judges runs of other trainers from metrics with these names. Callbacks and loggers of the "
    "recorder write them where the trainer measures the quantity; a loop of your own passes them to run.log().",
    TOO_SHORT: "Each signal compares an iteration with those before it; the first ones need more than ten.",
    "healthy": "No signal that shows a collapse has been beyond its limit for long.",
    "watch": "An early sign of a collapse, which the evidence names: the policy may be converging on one way to think "
    "and act, or an update may have broken its answers. The reward can still look good. Read some of the latest "
    "attempts: are the thoughts of a group still different?",
    "trapped": "The policy has collapsed: its attempts have become alike, and the reward has fallen or "
    "nothing is left to learn from. Runs rarely recover from here on their own.",
}
"""Explanation of each state."""
OTHERS_NO_SIGNAL = MEANING[NO_SIGNAL].replace(" (sft.warmup_steps)", "").replace("puzzles", "tasks")
"""The same for runs of other trainers."""


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
        changes=event.changes,
        time=datetime.fromtimestamp(event.time, tz=UTC),
    )


# -- for the snapshot -------------------------------------------------------------------------------------------------


def history(run: Run) -> dict[str, Any]:
    """Return the snapshot's alarms and rewinds. Two queries."""
    newest = list(run.alarms.order_by("-seq", "-pk").values("state", "message", "iteration", "undone")[:ALARMS])
    rewinds = run.rewinds.order_by("-seq").values("number", "from_iteration", "to_iteration", "changes")[:REWINDS]
    return {
        "alarms": newest[::-1],
        "rewinds": list(rewinds)[::-1],
    }


def trouble_since(run: Run) -> int | None:
    """Return the iteration of the first alarm since the policy was last healthy; None if it is healthy or unjudged."""
    since = None
    standing = run.alarms.filter(undone=False).order_by("-seq", "-pk")
    for state, iteration in standing.values_list("state", "iteration"):
        if state not in LABELS:
            break
        since = iteration
    return since


def evidence(run: Run) -> dict[str, list[list[float]]]:
    """Return {sign: [[iteration, value, limit], …]} of the newest iterations. One query."""
    values: dict[str, dict[int, float]] = defaultdict(dict)
    for name, iteration, value in _newest_points(run):
        values[name][iteration] = value
    return {
        sign.key: [
            [iteration, value, values[sign.limit][iteration]]
            for iteration, value in values[sign.name].items()
            if iteration in values[sign.limit]
        ]
        for sign in SIGNALS
    }


def _newest_points(run: Run) -> list[tuple[str, int, float]]:
    """Return (name, iteration, value) of the newest iterations, or the newest points of trainers that log rarely."""
    columns = ("name", "iteration", "value")
    if run.recorded is None:
        since = run.iteration - MAX_ITERATIONS
        points = MetricPoint.objects.filter(run=run, name__in=SIGNAL_METRICS, iteration__gt=since)
        return list(points.order_by("iteration").values_list(*columns))
    first, *others = (
        MetricPoint.objects.filter(run=run, name=name).order_by("-iteration").values_list(*columns)[:MAX_ITERATIONS]
        for name in SIGNAL_METRICS
    )
    return sorted(first.union(*others, all=True), key=lambda point: point[1])


# -- for the templates ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SignalEvidence:
    """A signal as the server renders it; static/js/live/echo_trap.js renders later values the same way."""

    sign: Signal
    points: list[list[float]]
    missing: str = "no data yet"

    @property
    def crossed(self) -> bool:
        return bool(self.points) and self.sign.crossed(*self.points[-1][1:])

    @property
    def text(self) -> str:
        """Value and limit, e.g. “62%, limit 50%”."""
        if not self.points:
            return self.missing
        _, value, limit = self.points[-1]
        side = "±" if self.sign.bad == "beyond" else ""
        return f"{number_text(self.sign, value)}, limit {side}{number_text(self.sign, limit)}"


def number_text(sign: Signal, value: float) -> str:
    """Return the value as text; halves are rounded up, as in the browser."""
    match sign.unit:
        case "share":
            text = f"{math.floor(100 * value + 0.5)}%"
        case "times":
            text = f"{math.floor(value + 0.5)}"
        case _:
            text = f"{math.floor(10 * value + 0.5) / 10:.1f}"
    return text.replace("-", "−")


def get_state(snapshot: Mapping[str, Any]) -> str:
    """Return the state to show: the state of the last alarm, or the reason why there is nothing to judge.

    static/js/live/echo_trap.js decides the same way.
    """
    state = snapshot["alarm"]["state"] if snapshot["alarm"] else NO_DATA
    if state in ("watch", "trapped"):
        return str(state)
    evidence = snapshot["evidence"]
    if (learning := evidence.get(LEARNING.key)) and LEARNING.crossed(*learning[-1][1:]):
        return NO_SIGNAL
    if state == "healthy" or any(points for key, points in evidence.items() if key not in PARTIAL_SIGNALS):
        return "healthy"
    if snapshot["run"]["recorded"] and not recorded(snapshot, EARLY_METRICS):
        return NOT_RECORDED
    return TOO_SHORT if snapshot["state"] in Run.ENDED else NO_DATA


def recorded(snapshot: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Return the names of the metrics that have values."""
    return [name for name in names if snapshot["curves"].get(name)]


def message(snapshot: Mapping[str, Any], state: str) -> str:
    """Return the evidence for the state in a sentence, as static/js/live/echo_trap.js writes it."""
    other = snapshot["run"]["recorded"]
    match state:
        case "no_signal":
            return "The rewards within groups have not differed for a window of iterations: no group teaches anything."
        case "not_recorded":
            if outcomes := recorded(snapshot, OUTCOME_METRICS):
                return (
                    f"The run recorded {join_items(outcomes)}, but none of {join_items(EARLY_METRICS)}, in which a "
                    "collapse shows early."
                )
            return f"The run recorded none of {join_items((*OUTCOME_METRICS, *EARLY_METRICS))}."
        case "too_short":
            return "The run ended before there were enough iterations to compare."
    if snapshot["alarm"]:
        return str(snapshot["alarm"]["message"])
    if state == NO_DATA:
        return (
            "There are too few iterations to compare yet."
            if other
            else "The first iterations will show whether thoughts and rewards stay different."
        )
    evidence = snapshot["evidence"]
    judged = [sign for sign in SIGNALS if sign is not LEARNING and evidence.get(sign.key)]
    beyond = [sign for sign in judged if sign.crossed(*evidence[sign.key][-1][1:])]
    calm = [sign.title.lower() for sign in judged if sign not in beyond]
    sentence = f"No sign of a collapse in {join_items(calm or ['the learning signal'])}."
    if not beyond:
        return sentence
    named = join_items([sign.title.lower() for sign in beyond])
    return f"{sentence} Beyond its limit now, which is no alarm yet: {named}."


def panel(snapshot: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the panel's template data: state, signals, explanations, and the configured reaction to a collapse.

    The reaction is unknown for another trainer's run.
    """
    state, other = get_state(snapshot), snapshot["run"]["recorded"]
    ended = other or snapshot["state"] in Run.ENDED
    return {
        "state": state,
        "word": STATE_LABELS[state],
        "message": message(snapshot, state),
        "opens": state in ("watch", "trapped", NOT_RECORDED),
        "evidence": [
            SignalEvidence(sign, snapshot["evidence"].get(sign.key, []), "no data" if ended else "no data yet")
            for sign in SIGNALS
        ],
        "meaning": MEANING | ({NO_SIGNAL: OTHERS_NO_SIGNAL} if other else {}),
        "answer": "" if other else reaction_text(config),
    }


def reaction_text(config: Mapping[str, Any]) -> str:
    """Describe the run's configured reaction to a collapse."""
    settings = config.get("echo_trap", {})
    match settings.get("action", "none"):
        case "stop":
            return "If it collapses: evaluate, save a checkpoint and stop."
        case "rewind":
            changes = ", ".join(f"{name} {value}" for name, value in settings.get("rewind_changes", {}).items())
            limit = settings.get("max_rewinds", MAX_REWINDS)
            return (
                "If it collapses: rewind to the last good checkpoint and continue with other puzzles"
                f"{' and ' + changes.replace('*', '×') if changes else ''}, at most {limit} times; then stop."
            )
    return "If it collapses: keep running."


def bands(alarms: Sequence[Mapping[str, Any]], last: int) -> list[dict[str, Any]]:
    """Return the periods in the states watch and trapped, oldest first: state, from, to (both inclusive)."""
    result: list[dict[str, Any]] = []
    standing = [alarm for alarm in alarms if not alarm["undone"]]
    for alarm, following in zip_longest(standing, standing[1:]):
        if alarm["state"] != "healthy":
            end = max(alarm["iteration"], following["iteration"] - 1 if following else last)
            result.append({"state": alarm["state"], "from": alarm["iteration"], "to": end, "open": following is None})
    return result


def all_bands(run: Run) -> list[dict[str, Any]]:
    """Return the `bands` of the whole run. One query."""
    alarms = Alarm.objects.filter(run=run, undone=False).order_by("seq", "pk").values("state", "iteration", "undone")
    return bands(list(alarms), run.iteration)


def bands_text(bands: Sequence[Mapping[str, Any]]) -> str:
    """Return the bands as text, e.g. “watch in iterations 12 to 20, trapped since iteration 21”."""
    parts = []
    for band in bands:
        several = band["to"] > band["from"]
        period = f"iterations {band['from']} to {band['to']}" if several else f"iteration {band['from']}"
        when = f"since iteration {band['from']}" if band["open"] else f"in {period}"
        parts.append(f"{band['state']} {when}")
    return ", ".join(parts)
