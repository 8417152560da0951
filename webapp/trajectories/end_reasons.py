"""End of an attempt as one code: solved, the reason it was lost, or the budget that ran out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from envs.lost_reasons import LOST_REASONS, OTHER, lost_reason
from trainer.journal.events import TrajectoryFinished

SOLVED, INTERRUPTED, ENVIRONMENT_ERROR = "solved", "interrupted", "environment_error"
_RUN_OUT = {"turns": "out_of_turns", "actions": "out_of_actions", "truncated": "cut_off"}
ENDED, UNKNOWN = "ended", "unknown"
LOST = {reason.code: reason.label for reason in (*LOST_REASONS, OTHER)}
"""Codes of lost attempts, with their labels."""
END_REASONS: dict[str, str] = {
    SOLVED: "solved",
    **LOST,
    "out_of_turns": "out of turns",
    "out_of_actions": "out of actions",
    "cut_off": "out of context",
    ENDED: "ended without success",
    UNKNOWN: "ended, success not known",
    ENVIRONMENT_ERROR: "broken off by the environment",
    INTERRUPTED: "interrupted",
}
"""All codes with their labels, in the order of lists."""
_WORDS = {reason.code: f"{reason.label} {reason.words}" for reason in (*LOST_REASONS, OTHER)} | {
    "out_of_turns": "out of turns time limit",
    "out_of_actions": "out of actions moves limit",
    "cut_off": "out of context cut off truncated length",
    ENDED: "ended without success",
    UNKNOWN: "unknown unrated",
    ENVIRONMENT_ERROR: "broken off by the environment error failure crash",
    INTERRUPTED: "interrupted paused stopped",
}
_FILLERS = {"the", "and", "not", "with", "into", "for", "box", "out"}
"""Words too common in labels and thoughts to suggest a reason by themselves."""


def end_reason(end: str, success: bool | None, lost_at: Mapping[str, Any] | None, error: str | None) -> str:
    """Return the code of an ended attempt from its closing event. A reason of a loss precedes budgets that ran out."""
    if success:
        return SOLVED
    if end == "interrupted":
        return INTERRUPTED
    if error:
        return ENVIRONMENT_ERROR
    if lost_at:
        return lost_reason(str(lost_at.get("reason", ""))).code
    return _RUN_OUT.get(end, UNKNOWN if success is None else ENDED)


def end_columns(event: TrajectoryFinished) -> dict[str, Any]:
    """Return the closing event with its code, as the ingest writes it."""
    data = event.model_dump()
    return data | {"end_reason": end_reason(event.end, event.success, data["lost_at"], event.error)}


def suggested(text: str) -> list[str]:
    """Return at most four codes whose label or synonyms contain a word of the search text, such as “corner”."""
    search_words = {word for word in re.findall(r"[^\W_]+", text.lower()) if len(word) > 2} - _FILLERS
    codes = []
    for code, words in _WORDS.items():
        known = words.split()
        if any(
            word.startswith(start) or start.startswith(word)
            for word in known
            if len(word) > 3
            for start in search_words
        ):
            codes.append(code)
    return codes[:4]
