"""The Echo Trap on the site: what a rewind undoes, and what a page says about the watch, its evidence and its past.

The numbers and their limits are the trainer's own (trainer/metrics/trap_signals.py); nothing is judged here.
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

SHOWN_ITERATIONS = 120
"""How far back the small curves of the evidence go."""
ALARMS, REWINDS = 12, 6
NUMBERS = tuple(name for sign in SIGNALS for name in (sign.name, sign.limit))
MEANING = {
    "healthy": "Nothing the watch looks for is on its bad side for long.",
    "watch": "An early sign of a collapse: the policy may be settling on one way to think and act. The reward can "
    "still look well. Read some of the latest trajectories: are the thoughts of a group still different?",
    "trapped": "The policy has collapsed: its trajectories have become alike and the reward has fallen. More training "
    "of the same kind rarely helps; an earlier checkpoint is the place to go on from.",
}
"""What a state means, for people."""


# -- writing, inside the ingest's transaction -------------------------------------------------------------------------


def record_rewind(run: Run, event: events.Rewound) -> None:
    """Keep that the run went back; what the watch said of the iterations it undid stays, as history."""
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
    newest = MetricPoint.objects.filter(run=run, name__in=NUMBERS, iteration__gt=run.iteration - SHOWN_ITERATIONS)
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
        """As in “62 %, limit 50 %”."""
        if not self.points:
            return "not known yet"
        _, value, limit = self.points[-1]
        side = "±" if self.sign.bad == "beyond" else ""
        return f"{number_words(self.sign, value)}, limit {side}{number_words(self.sign, limit)}"


def number_words(sign: Signal, value: float) -> str:
    """The number for people, halves rounded up as browsers do."""
    match sign.unit:
        case "share":
            text = f"{math.floor(100 * value + 0.5)} %"
        case "times":
            text = f"{math.floor(value + 0.5)}"
        case _:
            text = f"{math.floor(10 * value + 0.5) / 10:.1f}"
    return text.replace("-", "−")


def shown(snapshot: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """What the panel says beside the snapshot's own words: the signs, what the state means, what is done about it."""
    return {
        "state": snapshot["alarm"]["state"] if snapshot["alarm"] else "healthy",
        "evidence": [Evidence(sign, snapshot["evidence"].get(sign.key, [])) for sign in SIGNALS],
        "meaning": MEANING,
        "answer": answer_words(config),
    }


def answer_words(config: Mapping[str, Any]) -> str:
    """What the run does about a collapse, by its settings."""
    settings = config.get("echo_trap", {})
    match settings.get("action", "none"):
        case "stop":
            return "On a collapse: the run is examined, saves a checkpoint and stops."
        case "rewind":
            changes = ", ".join(f"{name} {value}" for name, value in settings.get("rewind_changes", {}).items())
            limit = settings.get("max_rewinds", 1)
            return (
                "On a collapse: back to the last sound checkpoint and on with other initial states"
                f"{' and ' + changes.replace('*', '×') if changes else ''}, at most {limit} times; then it stops."
            )
    return "On a collapse: nothing; the run goes on."


def bands(alarms: Sequence[Mapping[str, Any]], last: int) -> list[dict[str, Any]]:
    """Stretches of watch and trapped from changes of state, oldest first: state, from, to (both inclusive)."""
    found: list[dict[str, Any]] = []
    standing = [alarm for alarm in alarms if not alarm["undone"]]
    for alarm, following in zip_longest(standing, standing[1:]):
        if alarm["state"] != "healthy":
            end = max(alarm["iteration"], following["iteration"] - 1 if following else last)
            found.append({"state": alarm["state"], "from": alarm["iteration"], "to": end, "open": following is None})
    return found


def all_bands(run: Run) -> list[dict[str, Any]]:
    """As `bands`, of the whole run. One query."""
    alarms = Alarm.objects.filter(run=run, undone=False).order_by("seq").values("state", "iteration", "undone")
    return bands(list(alarms), run.iteration)


def words_of(found: Sequence[Mapping[str, Any]]) -> str:
    """As in “watch in iterations 12 to 20, trapped since iteration 21”."""
    parts = []
    for band in found:
        where = f"{band['from']} to {band['to']}" if band["to"] > band["from"] else f"{band['from']}"
        many = "iterations" if band["to"] > band["from"] else "iteration"
        since = f"since iteration {band['from']}" if band["open"] else f"in {many} {where}"
        parts.append(f"{band['state']} {since}")
    return ", ".join(parts)
