"""Texts for visitors outside the team in place of error messages, which name folders, machines and other services."""

from __future__ import annotations

import json
from functools import lru_cache

FAILURE = "The reason is visible to the run's team only."
UNREADABLE = "The journal of this run cannot be read further. The reason is visible to the run's team only."
TEAM_TEXTS: dict[str, dict[str, str | None]] = {
    "notice": {"message": ""},
    "run_finished": {"message": ""},
    "settings_changed": {"by": "", "why": "", "refused": ""},
    "trajectory_finished": {"error": None},
}
"""Event → texts for the team, and their replacements; pages leave out a notice without a message."""


def failure_text(failure: str, *, inside: bool) -> str:
    """Return the failure of a run, or a general text outside the team."""
    return failure if inside or not failure else FAILURE


def problem_text(problem: str, *, inside: bool) -> str:
    """Return the problem of the journal, or a general text outside the team."""
    return problem if inside or not problem else UNREADABLE


@lru_cache(maxsize=16)
def public_frame(text: str) -> str:
    """Return a frame of journal events without texts for the team. Cached for the other sockets.

    Every frame is parsed: it contains the journal's bytes, whose spaces and escapes a search would miss.
    """
    frame, changed = json.loads(text), False
    for event in frame["events"]:
        for name, replacement in TEAM_TEXTS.get(event["type"], {}).items():
            if event.get(name):
                event[name], changed = replacement, True
    return json.dumps(frame, ensure_ascii=False, separators=(",", ":")) if changed else text
