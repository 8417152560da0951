"""What visitors outside the team see instead of error messages: those name folders, machines and other services."""

from __future__ import annotations

import json
from functools import lru_cache

FAILURE = "The reason is visible to the run's team only."
UNREADABLE = "The journal of this run cannot be read further. The reason is visible to the run's team only."
TEAM_TEXTS: dict[str, dict[str, str | None]] = {
    "notice": {"message": ""},
    "run_finished": {"message": ""},
    "trajectory_finished": {"error": None},
}
"""Event → texts for the team and what replaces them; pages leave out a notice without a message."""


def failure_words(failure: str, *, inside: bool) -> str:
    """The failure of a run, or general words outside the team."""
    return failure if inside or not failure else FAILURE


def problem_words(problem: str, *, inside: bool) -> str:
    """What is wrong with the journal, or general words outside the team."""
    return problem if inside or not problem else UNREADABLE


@lru_cache(maxsize=16)
def public_frame(text: str) -> str:
    """A frame of journal events without the texts for the team; the newest frames are kept for the other sockets.

    Every frame is parsed: it holds the journal's own bytes, whose spaces and escapes a search would miss.
    """
    frame, changed = json.loads(text), False
    for event in frame["events"]:
        for name, replacement in TEAM_TEXTS.get(event["type"], {}).items():
            if event.get(name):
                event[name], changed = replacement, True
    return json.dumps(frame, ensure_ascii=False, separators=(",", ":")) if changed else text
