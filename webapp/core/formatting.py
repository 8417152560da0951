"""Numbers and states as text for server-rendered pages; static/js/ui/formatting.js mirrors it."""

from __future__ import annotations

from collections.abc import Mapping
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
HELD = ("starting", "running")


def shown_state(state: str, requested: str) -> str:
    """State on pages: a run with a pending pause request is pausing."""
    return REQUESTS.get(requested, state) if state in HELD else state


def number(value: float, digits: int = 2) -> str:
    """Fixed digits with a true minus sign."""
    return f"{value:.{digits}f}".replace("-", "−")


def signed(value: float) -> str:
    """The value with its sign, as for rewards."""
    size = abs(value)
    text = f"{size:.0f}" if size >= 100 else f"{round(size, 2):g}"
    if float(text) == 0:
        return "0"
    return ("−" if value < 0 else "+") + text


def percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def plural(count: int, one: str, many: str = "") -> str:
    """A count with its noun, e.g. “1 turn”, “25,000 trajectories”."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """A duration in its one or two largest units."""
    if seconds < 90:
        return f"{max(1, int(seconds + 0.5))} s"
    minutes = int(seconds / 60 + 0.5)
    if minutes < 90:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{int(minutes / 1440 + 0.5)} days"


def phase_text(phase: Mapping[str, Any] | None, iterations: int) -> str:
    """Current phase, e.g. “Iteration 37 of 200 · rollout 96 of 128 trajectories”."""
    if not phase or not phase.get("phase"):
        return ""
    progress = ""
    if phase["total"] > 0:
        progress = f" {phase['done']:,} of {phase['total']:,}" + (f" {phase['unit']}" if phase["unit"] else "")
    what = PHASES.get(phase["phase"], phase["phase"])
    if iterations == 0:  # a run that only evaluates
        return f"{what[:1].upper()}{what[1:]}{progress}"
    head = f"Iteration {phase['iteration']} of {iterations}" if phase["iteration"] > 0 else "Before the first iteration"
    return f"{head} · {what}{progress}"


def progress(phase: Mapping[str, Any] | None, iterations: int, state: str) -> float:
    """Progress of the run, 0 to 1, including the rollout of the current iteration."""
    if state == "finished":
        return 1.0
    if phase and iterations == 0 and phase["total"] > 0:
        return float(min(1.0, phase["done"] / phase["total"]))
    if not phase or iterations <= 0 or phase["iteration"] < 1:
        return 0.0
    inside = 0.8
    if phase["phase"] == "rollout":
        inside = 0.8 * phase["done"] / phase["total"] if phase["total"] > 0 else 0.0
    return float(min(1.0, (phase["iteration"] - 1 + inside) / iterations))


def pace_text(phase: Mapping[str, Any] | None, device: str, state: str) -> str:
    """Speed and ETA, e.g. “5,310 tokens/s · CPU, 2 threads · 9 min left”."""
    parts = []
    if state == "running" and phase and phase.get("tokens_per_second"):
        parts.append(f"{int(phase['tokens_per_second'] + 0.5):,} tokens/s")
    if device:
        parts.append(device)
    if state == "running" and phase and phase.get("eta_seconds"):
        parts.append(f"{duration(phase['eta_seconds'])} left")
    return " · ".join(parts)


def outcome(
    success: bool | None, end: str | None, turns: int, actions: int, lost_at: Mapping[str, Any] | None = None
) -> str:
    """Outcome of a trajectory as a sentence without a full stop."""
    length = f"{plural(turns, 'turn')}, {plural(actions, 'action')}"
    if success is None:
        return f"playing: {length}"
    if success:
        return f"solved in {length}"
    if lost_at:
        return f"stuck at turn {lost_at['turn'] + 1}, action {lost_at['action'] + 1}: {lost_at['reason']}"
    starts = {
        "terminated": "failed after",
        "turns": "out of turns after",
        "actions": "out of actions after",
        "truncated": "cut off after",
        "interrupted": "interrupted after",
    }
    return f"{starts.get(end or '', 'not solved in')} {length}"


def place(group: int, member: int) -> str:
    """Group and trajectory, e.g. “g3 · 11”; 0-based, as in the journal."""
    return f"g{group} · {member:02d}"
