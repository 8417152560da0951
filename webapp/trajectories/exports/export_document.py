"""Exports of a trajectory: JSON document and text transcript, documented in docs/sharing.md.

Increase VERSION when the meaning of a field changes, and document it there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from webapp.core import formatting
from webapp.runs.public_texts import failure_text
from webapp.trajectories.board_text import board_text
from webapp.trajectories.branch_origin import branch_origin
from webapp.trajectories.models import Trajectory
from webapp.trajectories.serialize import outcome_data, turn_data, worst_mark_name
from webapp.trajectories.sharing.public import comment_on, training_point
from webapp.trajectories.turn_text import folded_parts, response_text

FORMAT = "echoscope.trajectory"
VERSION = 1

Event = Mapping[str, Any]


def shared_document(trajectory: Trajectory, events: Iterable[Event], *, inside: bool = False) -> dict[str, Any]:
    """Return the trajectory without its ids inside the team. `events` are its turn events of the journal, in order.

    `inside`: True if the reader is in the run's team; others get a general text in place of an error.
    """
    group, origin = trajectory.group, branch_origin(trajectory)
    return {
        "format": FORMAT,
        "version": VERSION,
        "environment": group.environment,
        "split": trajectory.split,
        "suite": group.suite or None,
        "iteration": trajectory.iteration,
        "group": (origin.recorded.group if origin else group).number,
        "member": trajectory.member,
        **({"branch": origin.exported()} if origin else {}),
        "seed": group.seed,
        "status": trajectory.status,
        **outcome_data(trajectory),
        "end_reason": trajectory.end_reason or None,
        "turn_count": trajectory.turn_count,
        "action_count": trajectory.action_count,
        "token_count": trajectory.token_count,
        "format_error": trajectory.format_error,
        **({"recorded": True} if trajectory.run.recorded is not None else {}),
        "true_claims": trajectory.true_claims,
        "false_claims": trajectory.false_claims,
        "false_claim_kinds": trajectory.false_claim_kinds,
        "worst_mark": worst_mark_name(trajectory),
        "first_mistake_turn": trajectory.first_mistake_turn,
        "error": failure_text(trajectory.error, inside=inside) or None,
        "group_mean": group.mean,
        "group_std": group.std,
        "group_kept": group.kept,
        "training_use": trajectory.training_use or None,
        "mismatch": trajectory.mismatch,
        "prompt": group.prompt,
        "board": group.board,
        "hint": group.hint,
        **(_extras(trajectory) if inside else {}),
        "turns": [turn_data(event) for event in events],
    }


def _extras(trajectory: Trajectory) -> dict[str, Any]:
    """Return the fields that a recorder added to the trajectory and its group, such as file names."""
    extras = {"group_extra": trajectory.group.extra, "extra": trajectory.extra}
    return {name: value for name, value in extras.items() if value}


def document(trajectory: Trajectory, events: Iterable[Event], run: str, *, inside: bool) -> dict[str, Any]:
    """Return the document for readers of the run, with the ids to find it again. `run` is the slug of the run.

    `inside`: see shared_document().
    """
    identity = {"run": run, "id": trajectory.slug, "key": trajectory.key, "attempt": trajectory.attempt}
    shared = shared_document(trajectory, events, inside=inside)
    head = {name: shared.pop(name) for name in ("format", "version")}
    return head | identity | shared


def transcript(trajectory: Trajectory, events: Iterable[Event]) -> str:
    """Return a transcript: every state, thought, answer and reward."""
    group = trajectory.group
    lines = [
        f"{group.environment}, {training_point(trajectory)}",
        comment_on(trajectory)
        + (f" Total reward {formatting.signed(trajectory.reward)}." if trajectory.rewarded else ""),
        *_part("Prompt", group.prompt),
        *_part("Board at the start", board_text(group.board)),
    ]
    for event in events:
        lines += _turn(event, recorded=trajectory.run.recorded is not None)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _part(title: str, text: str) -> list[str]:
    return ["", title, "-" * len(title), *text.strip("\n").splitlines()]


def _turn(event: Event, *, recorded: bool) -> list[str]:
    lines = ["", *_part(f"Turn {event['turn'] + 1}", event["state"]), *_images(event.get("images") or ())]
    if event["thought"] or not recorded:
        lines += ["", "Thought:", *_indented(event["thought"] or "none")]
    broken = event.get("format_valid") is False
    if recorded and not broken and (text := response_text(event)):
        lines += ["", "Response:", *_indented(text)]
    if broken:
        lines += ["", f"Format error: {event.get('problem') or 'the response breaks the format'}", "Response:"]
        lines += _indented(event["response"])
    if event["actions"] or not recorded:
        lines += ["", "Actions:" if event["actions"] else "Actions: none"]
    for record in event["actions"]:
        what = (
            f"executed, reward {formatting.signed(record.get('reward', 0.0))}"
            if record["status"] == "executed"
            else record["status"]
        )
        if record.get("actual"):
            what += f", slipped: went {record['actual']}"
        call = record.get("call")
        name = formatting.call_text(call) if recorded and call else record.get("name") or record["text"]
        lines.append(f"    {name}: {what}")
        if call:
            result = [f"        {line}" for line in _indented(call["result"])]
            lines += ["        Result:", *result] if result or not recorded else []
        if record.get("board"):
            lines += [f"        {line}" for line in board_text(record["board"]).splitlines()]
    for part in [] if recorded or broken else folded_parts(event):
        lines += ["", f"Text {part.place}:", *_indented(part.text)]
    terms = ", ".join(f"{formatting.signed(value)} {name}" for name, value in event["terms"].items())
    return [*lines, f"Reward: {formatting.signed(event['reward'])} ({terms})"] if terms else lines


def _images(images: Iterable[Mapping[str, Any]]) -> list[str]:
    return [f"[Image of {image['width']} × {image['height']} pixels, SHA-256 {image['sha256']}]" for image in images]


def _indented(text: str) -> list[str]:
    return [f"    {line}" for line in text.splitlines()]
