"""Numbers and states as text for server-rendered pages; static/js/ui/formatting.js mirrors it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

STATES = {
    "queued": "Queued",
    "starting": "Starting",
    "running": "Running",
    "pausing": "Pausing",
    "paused": "Paused",
    "stopping": "Stopping",
    "stopped": "Stopped",
    "cancelling": "Cancelling",
    "cancelled": "Cancelled",
    "finished": "Finished",
    "failed": "Failed",
}
REQUESTS = {"pause": "pausing", "stop": "stopping", "cancel": "cancelling"}
PHASES = {
    "load": "loading the policy",
    "warmup": "warm-up",
    "evaluate": "evaluation",
    "rollout": "rollout",
    "update": "update",
    "checkpoint": "saving a checkpoint",
}
ITERATION_PHASES = ("rollout", "update", "evaluate", "checkpoint")
HELD = ("starting", "running")


def beginning(text: str, longest: int) -> str:
    """Return the beginning of a text, in one line, cut between words."""
    text = " ".join(text.split())
    return text if len(text) <= longest else text[:longest].rsplit(" ", 1)[0] + " …"


def shown_state(state: str, requested: str) -> str:
    """Return the state for pages: a run with a pending pause request is pausing."""
    return REQUESTS.get(requested, state) if state in HELD else state


MANY_DIGITS = 1e15
"""From here on, digits before the point would be noise; as in static/js/ui/formatting.js."""


def number(value: float, digits: int = 2) -> str:
    """Format with fixed digits and a true minus sign; very large numbers get their power of ten."""
    text = f"{value:.{digits}f}" if abs(value) < MANY_DIGITS else f"{value:.2e}"
    return text.replace("-", "−")


def large(value: float) -> str:
    """Format a number, with a unit word if it is large, e.g. “9,500”, “31 thousand” or “1.2 million”."""
    if value >= 1e6:
        return f"{value / 1e6:,.1f} million"
    return f"{value:,.0f}" if value < 1e4 else f"{value / 1e3:,.0f} thousand"


def signed(value: float | None) -> str:
    """Format a value such as a reward with its sign, or a dash for None: one decimal, a second if needed (0.15)."""
    if value is None:
        return "–"
    size = abs(value)
    text = f"{size:.0f}" if 100 <= size < MANY_DIGITS else re.sub(r"0$", "", number(size))
    if float(text) == 0:
        return text
    return ("−" if value < 0 else "+") + text


def percent(share: float) -> str:
    """Format a share, 0 to 1, as a percentage with one decimal, e.g. “29.7%”."""
    return f"{share * 100:.1f}%"


def points(difference: float) -> str:
    """Format a difference of shares in percentage points with its sign, e.g. “+14.4”."""
    text = f"{abs(100 * difference):.1f}"
    return text if float(text) == 0 else ("−" if difference < 0 else "+") + text


def whole(value: float) -> str:
    """Format a whole number with thousands separators and a minus sign, e.g. “3,072”, “−16”."""
    return f"{value:,.0f}".replace("-", "−")


def plural(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun, e.g. “1 turn”, “25,000 trajectories”."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """Format a duration in its one or two largest units."""
    if seconds < 90:
        return f"{max(1, int(seconds + 0.5))} s"
    minutes = int(seconds / 60 + 0.5)
    if minutes < 90:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{int(minutes / 1440 + 0.5)} days"


UPDATE_STAGES = {
    "prepare": "measuring the rollout",
    "reference": "scoring under the initial policy",
    "old": "scoring under the current policy",
    "values": "scoring with the critic",
    "diagnostics": "measuring gradients",
}
"""Stages of an update before its passes over the rollout."""


def update_text(phase: Mapping[str, Any]) -> str:
    """Describe the progress of an update, e.g. “update: pass 1 of 2, micro-batch 7 of 24”."""
    update = phase["update"]
    what = UPDATE_STAGES.get(update["stage"]) or f"pass {update['pass_number']} of {update['passes']}"
    part = "thought" if update["stage"] == "prepare" else "micro-batch"
    number = min(phase["done"] + 1, phase["total"])
    position = f", {part} {number:,} of {phase['total']:,}" if phase["total"] > 0 else ""
    return f"update: {what}{position}"


@dataclass(frozen=True)
class RunLength:
    """Planned length of a run, and how much of it is finished.

    Attributes:
        iterations: planned iterations; 0 for a run that only evaluates.
        iteration: number of finished iterations; negative during a warm-up on demonstrations.
        warmup_steps: steps of the warm-up, 0 without one.
        warmup_share: its expected share of the run, 0 to 1.
    """

    iterations: int
    iteration: int = 0
    warmup_steps: int = 0
    warmup_share: float = 0.0


def phase_text(phase: Mapping[str, Any] | None, length: RunLength) -> str:
    """Describe the phase, e.g. “Iteration 37 of 200 · rollout 96 of 128 trajectories” or “Warm-up 3 of 16 steps”."""
    if not phase or not phase.get("phase"):
        return ""
    what = PHASES.get(phase["phase"], phase["phase"])
    progress = ""
    if phase.get("update"):
        what = update_text(phase)
    elif phase["total"] > 0:
        progress = f" {phase['done']:,} of {phase['total']:,}" + (f" {phase['unit']}" if phase["unit"] else "")
    if length.iterations == 0:  # a run that only evaluates
        return f"{what[:1].upper()}{what[1:]}{progress}"
    if warmup := warmup_progress(phase, length):
        head = f"Warm-up {warmup.done:,} of {plural(length.warmup_steps, 'step')}"
        if phase["phase"] != "warmup":
            return f"{head} · {what}{progress}"
        return head if phase["unit"] == "steps" else f"{head} ·{progress}"
    head = (
        f"Iteration {phase['iteration']} of {length.iterations}"
        if phase["iteration"] > 0
        else "Before the first iteration"
    )
    return f"{head} · {what}{progress}"


@dataclass(frozen=True)
class WarmupProgress:
    """Finished steps of a warm-up, and the completed share of all steps, 0 to 1, with a part of the current one."""

    done: int
    share: float


def warmup_progress(phase: Mapping[str, Any], length: RunLength) -> WarmupProgress | None:
    """Return the progress of the steps on demonstrations before the first iteration; None at other times."""
    steps = length.warmup_steps
    if steps == 0:
        return None
    if phase["phase"] == "warmup" and phase["unit"] == "steps":
        return WarmupProgress(phase["done"], phase_share(phase))
    if length.iteration < 0:
        done = max(0, steps + length.iteration)
        return WarmupProgress(done, done / steps)
    return WarmupProgress(0, 0.0) if phase["phase"] == "warmup" else None  # of a new run, which plays demonstrations


def progress(phase: Mapping[str, Any] | None, length: RunLength, state: str) -> float:
    """Return the progress of the run, 0 to 1, including its warm-up and the phases of the current iteration."""
    if state == "finished":
        return 1.0
    if phase and length.iterations == 0:
        return float(min(1.0, phase_share(phase)))
    if not phase or length.iterations <= 0:
        return 0.0
    if warmup := warmup_progress(phase, length):
        return length.warmup_share * warmup.share
    if phase["iteration"] < 1:
        return 0.0 if phase["phase"] == "load" else length.warmup_share
    inside = sum(part["share"] * part["done"] for part in iteration_parts(phase))
    trained = min(1.0, (phase["iteration"] - 1 + inside) / length.iterations)
    return float(length.warmup_share + (1 - length.warmup_share) * trained)


def phase_share(phase: Mapping[str, Any]) -> float:
    """Return the completed share of the current phase, 0 to 1."""
    if phase.get("share") is not None:
        return float(phase["share"])
    return float(min(1.0, phase["done"] / phase["total"])) if phase["total"] > 0 else 0.0


def iteration_parts(phase: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the current iteration's phases, in order: name, expected share of its time, completed share (0 to 1).

    Before the first iteration is measured, a rollout counts for 0.4 of it.
    """
    shares = phase.get("iteration_shares") or {"rollout": 0.4, "update": 0.6}
    current = ITERATION_PHASES.index(phase["phase"]) if phase["phase"] in ITERATION_PHASES else -1
    done = phase_share(phase)
    return [
        {
            "name": name,
            "share": shares[name],
            "done": done if name == phase["phase"] else float(ITERATION_PHASES.index(name) < current),
        }
        for name in ITERATION_PHASES  # the database does not keep the order of keys
        if name in shares
    ]


def pace_text(phase: Mapping[str, Any] | None, device: str, state: str) -> str:
    """Describe speed and ETA, e.g. “5,310 tokens/s · CPU, 2 threads · 9 min left”."""
    parts = []
    if state == "running" and phase and phase.get("tokens_per_second"):
        parts.append(f"{int(phase['tokens_per_second'] + 0.5):,} tokens/s")
    if device:
        parts.append(device)
    if state == "running" and phase and phase.get("eta_seconds"):
        parts.append(eta_text(phase))
    return " · ".join(parts)


def eta_text(phase: Mapping[str, Any]) -> str:
    """Describe the remaining time, e.g. “9 min left (8 min to 12 min)”; without the range if its ends read alike."""
    low, high = phase.get("eta_low_seconds"), phase.get("eta_high_seconds")
    left = f"{duration(phase['eta_seconds'])} left"
    if low is None or high is None or duration(low) == duration(high):
        return left
    return f"{left} ({duration(low)} to {duration(high)})"


def outcome(
    success: bool | None, end: str | None, turns: int, actions: int, lost_at: Mapping[str, Any] | None = None
) -> str:
    """Describe the outcome of a trajectory in a sentence without a full stop. Zero actions are left out."""
    length = plural(turns, "turn") + (f", {plural(actions, 'action')}" if actions else "")
    if end == "interrupted" and not success:
        return f"interrupted after {length}"
    if success is None:
        return f"ended after {length}" if end else f"playing: {length}"
    if success:
        return f"solved in {length}"
    if lost_at:
        return f"lost at turn {lost_at['turn'] + 1}, action {lost_at['action'] + 1}: {lost_at['reason']}"
    starts = {
        "terminated": "failed after",
        "turns": "out of turns after",
        "actions": "out of actions after",
        "truncated": "cut off after",
    }
    return f"{starts.get(end or '', 'not solved in')} {length}"


def gib(size: float) -> str:
    """Format a number of bytes in GiB, without the unit."""
    return f"{size / 2**30:,.1f}"


def join_items(items: Sequence[str]) -> str:
    """Join items, e.g. “a, b and c”."""
    *others, last = items
    return f"{', '.join(others)} and {last}" if others else last


def sentence(text: str) -> str:
    """Return a text as a sentence: with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."


def place(group: int, member: int) -> str:
    """Return group and attempt counted from 1, e.g. “g4 · 12”, from their indices in the journal, which start at 0."""
    return f"g{group + 1} · {member + 1:02d}"


def no_formula(text: str) -> str:
    """Return the text as a cell of a CSV file that no spreadsheet reads as a formula or a command."""
    return f"'{text}" if text[:1] in tuple("=+-@|%\t\r\n") else text


def call_text(call: Mapping[str, Any]) -> str:
    """Return a tool call as text. A single text argument has neither name nor quotation marks."""
    tool, arguments = call.get("tool"), call.get("arguments") or {}
    if not tool:
        return "unreadable call"
    if len(arguments) == 1 and isinstance(value := next(iter(arguments.values())), str):
        return f"{tool}({value})"
    values = (
        f"{name}={json.dumps(value, ensure_ascii=False, separators=(',', ':'))}" for name, value in arguments.items()
    )
    return f"{tool}({', '.join(values)})"
