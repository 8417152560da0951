"""Exports of a trajectory: JSON document and text transcript, documented in docs/sharing.md.

Increase VERSION when the meaning of a field changes, and document it there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from webapp.core import formatting
from webapp.trajectories.board_text import board_text
from webapp.trajectories.models import Trajectory
from webapp.trajectories.serialize import outcome_data
from webapp.trajectories.sharing.public import outcome_of, when_of

FORMAT = "echoscope.trajectory"
VERSION = 1
_JOURNAL_FIELDS = ("type", "seq", "time", "trajectory")

Event = Mapping[str, Any]


def shared_document(trajectory: Trajectory, events: Iterable[Event]) -> dict[str, Any]:
    """The trajectory without its ids inside the team. `events`: its turn events of the journal, in order."""
    group = trajectory.group
    return {
        "format": FORMAT,
        "version": VERSION,
        "environment": group.environment,
        "split": trajectory.split,
        "suite": group.suite or None,
        "iteration": trajectory.iteration,
        "group": group.number,
        "member": trajectory.member,
        "seed": group.seed,
        "status": trajectory.status,
        **outcome_data(trajectory),
        "turn_count": trajectory.turn_count,
        "action_count": trajectory.action_count,
        "token_count": trajectory.token_count,
        "format_error": trajectory.format_error,
        "error": trajectory.error or None,
        "group_mean": group.mean,
        "group_std": group.std,
        "group_kept": group.kept,
        "prompt": group.prompt,
        "board": group.board,
        "hint": group.hint,
        "turns": [{name: value for name, value in event.items() if name not in _JOURNAL_FIELDS} for event in events],
    }


def document(trajectory: Trajectory, events: Iterable[Event], run: str) -> dict[str, Any]:
    """The document for readers of the run, with the ids to find it again. `run`: slug of the run."""
    place = {"run": run, "id": trajectory.slug, "key": trajectory.key, "attempt": trajectory.attempt}
    shared = shared_document(trajectory, events)
    head = {name: shared.pop(name) for name in ("format", "version")}
    return head | place | shared


def transcript(trajectory: Trajectory, events: Iterable[Event]) -> str:
    """Transcript: every state, thought, answer and reward."""
    group = trajectory.group
    outcome = outcome_of(trajectory)
    lines = [
        f"{group.environment}, {when_of(trajectory)}",
        f"{outcome[:1].upper()}{outcome[1:]}. Total reward {formatting.signed(trajectory.total_reward)}.",
        *_part("Prompt", group.prompt),
        *_part("Board at the start", board_text(group.board)),
    ]
    for event in events:
        lines += _turn(event)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _part(title: str, text: str) -> list[str]:
    return ["", title, "-" * len(title), *text.strip("\n").splitlines()]


def _turn(event: Event) -> list[str]:
    lines = [
        "",
        *_part(f"Turn {event['turn'] + 1}", event["state"]),
        "",
        "Thought:",
        *_indented(event["thought"] or "none"),
    ]
    if not event["format_valid"]:
        lines += ["", f"Format error: {event.get('problem') or 'the response breaks the format'}", "Response:"]
        lines += _indented(event["response"])
    lines += ["", "Actions:" if event["actions"] else "Actions: none"]
    for record in event["actions"]:
        what = (
            f"executed, reward {formatting.signed(record.get('reward', 0.0))}"
            if record["status"] == "executed"
            else record["status"]
        )
        if record.get("actual"):
            what += f", slipped: went {record['actual']}"
        lines.append(f"    {record.get('name') or record['text']}: {what}")
        if record.get("board"):
            lines += [f"        {line}" for line in board_text(record["board"]).splitlines()]
    terms = ", ".join(f"{formatting.signed(value)} {name}" for name, value in event["terms"].items())
    return [*lines, f"Reward: {formatting.signed(event['reward'])}" + (f" ({terms})" if terms else "")]


def _indented(text: str) -> list[str]:
    return [f"    {line}" for line in text.splitlines()]
