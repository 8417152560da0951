"""Values of the explorer's filters in query strings: the choices of each, and their parsing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from envs.claims.kinds import CLAIM_KINDS
from trainer.metrics.training_use import TRAINING_USES
from webapp.explorer import regular_expressions
from webapp.trajectories.end_reasons import END_REASONS
from webapp.trajectories.pagination import SORTS

OUTCOMES = {
    "success": "Solved",
    "failed": "Failed",
    "lost": "Failed: lost",
    "truncated": "Failed: cut off",
    "error": "Failed: an error",
    "interrupted": "Interrupted",
    "unknown": "Ended, success not known",
    "playing": "Playing",
    "waiting": "Waiting",
}
FORMATS = {"valid": "Valid throughout", "broken": "Broken at least once"}
CLAIMS = {"false": "At least one false", "true": "All true", "none": "None"}
"""Results of comparing the thoughts with the state."""
MARKS = {
    "none": "No mistakes",
    "inaccuracy": "?! inaccuracy",
    "mistake": "? mistake",
    "blunder": "?? blunder",
    "unjudged": "Not judged",
}
"""Worst marks of ended attempts, according to the solver of their environment."""
HIDEABLE = (
    "iteration", "board", "environment", "mark", "reward", "turns", "actions", "tokens", "format", "kept", "said",
)  # fmt: skip
"""Columns of the table that can be hidden."""
MAX_NUMBER = 2_147_483_647
MAX_TEXT_LENGTH = 200
_YES, _NO = {"yes", "1", "true", "on"}, {"no", "0", "false", "off"}


class InvalidFilter(ValueError):
    """A value that is not a valid filter; the message is shown next to the field."""


def _whole(text: str) -> int:
    cleaned = text.replace(",", "").replace(" ", "")
    if not (cleaned.isascii() and cleaned.isdecimal()):
        raise InvalidFilter(f"“{_shortened(text)}” is not a whole number, such as 12.")
    if len(cleaned) > 10 or int(cleaned) > MAX_NUMBER:
        raise InvalidFilter(f"That is too large: at most {MAX_NUMBER:,}.")
    return int(cleaned)


def _real(text: str) -> float:
    try:
        value = float(text.replace("−", "-"))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InvalidFilter(f"“{_shortened(text)}” is not a number, such as 2.5 or −1.")
    return value


def _yes_or_no(text: str) -> bool:
    if text.lower() in _YES | _NO:
        return text.lower() in _YES
    raise InvalidFilter(f"“{_shortened(text)}” is neither yes nor no.")


def _choice(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text in choices:
            return text
        raise InvalidFilter(f"“{_shortened(text)}” is not one of {', '.join(choices)}.")

    return read


def _name(text: str) -> str:
    if len(text) > 100 or "\0" in text:
        raise InvalidFilter("That is too long for a name: at most 100 characters.")
    return text


def _search_text(text: str) -> str:
    if len(text) > MAX_TEXT_LENGTH:
        raise InvalidFilter(f"That is too long: at most {MAX_TEXT_LENGTH} characters.")
    if "\0" in text or not any(sign.isalnum() for sign in text):
        raise InvalidFilter("Write at least one word or number: punctuation is not in the index.")
    return text


def _pattern(text: str) -> str:
    """Check a regular expression with PostgreSQL, which will search with it."""
    if len(text) > MAX_TEXT_LENGTH or "\0" in text:
        raise InvalidFilter(f"That is too long: at most {MAX_TEXT_LENGTH} characters.")
    if problem := regular_expressions.problem(text):
        raise InvalidFilter(f"“{_shortened(text)}” is no regular expression: {problem}.")
    return text


def _counted(things: str) -> Callable[[str], int]:
    def read(text: str) -> int:
        if number := _whole(text):
            return number
        raise InvalidFilter(f"{things} are counted from 1.")

    return read


def _kinds(text: str) -> tuple[str, ...]:
    """Parse kinds of claims, in the order of CLAIM_KINDS; at least one."""
    names = set(filter(None, re.split(r"[ ,+]+", text)))
    for name in sorted(names - CLAIM_KINDS.keys()):
        raise InvalidFilter(f"“{_shortened(name)}” is not one of {', '.join(CLAIM_KINDS)}.")
    if not names:
        raise InvalidFilter(f"Name at least one of {', '.join(CLAIM_KINDS)}.")
    return tuple(name for name in CLAIM_KINDS if name in names)


def _percent(text: str) -> float:
    value = _real(text.removesuffix("%").strip())
    if 0 <= value <= 100:
        return value
    raise InvalidFilter("Must be a percentage from 0 to 100.")


def _hidden(text: str) -> str:
    """Return the columns in their usual order, without unknown ones, so that saved views outlive columns."""
    return " ".join(name for name in HIDEABLE if name in re.split(r"[ ,+]+", text))


def _sort(text: str) -> str:
    if text.removeprefix("-") in SORTS:
        return text
    raise InvalidFilter(
        f"Cannot sort by “{_shortened(text)}”. Choose one of {', '.join(SORTS)}, with - for descending."
    )


def _view(text: str) -> str:
    if re.fullmatch(r"-?[a-z0-9][a-z0-9-]{0,59}", text):
        return text
    raise InvalidFilter(f"“{_shortened(text)}” is not a saved view or a scanner.")


def _shortened(text: str) -> str:
    return text if len(text) <= 24 else text[:23] + "…"


READERS: dict[str, Callable[[str], Any]] = {
    "iteration": _whole,
    "iteration_min": _whole,
    "iteration_max": _whole,
    "environment": _name,
    "split": _choice("train", "eval"),
    "suite": _name,
    "group_number": _counted("Groups"),
    "outcome": _choice(*OUTCOMES),
    "reason": _choice(*END_REASONS),
    "break_turn": _counted("Turns"),
    "mark": _choice(*MARKS),
    "mistake_turn": _counted("Turns"),
    "success": _yes_or_no,
    "reward_min": _real,
    "reward_max": _real,
    "turns_min": _whole,
    "turns_max": _whole,
    "actions_min": _whole,
    "actions_max": _whole,
    "tokens_min": _whole,
    "tokens_max": _whole,
    "format": _choice(*FORMATS),
    "claims": _choice(*CLAIMS),
    "false_claim_kinds": _kinds,
    "truth_min": _percent,
    "truth_max": _percent,
    "kept": _yes_or_no,
    "training_use": _choice(*TRAINING_USES),
    "alarm": _yes_or_no,
    "text": _search_text,
    "pattern": _pattern,
    "starred": _yes_or_no,
    "tag": _name,
    "sort": _sort,
    "hide": _hidden,
    "view": _view,
}
"""Name of a filter → function that parses its value and raises InvalidFilter."""
