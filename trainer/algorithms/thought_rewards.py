"""Reward terms of a turn: its thought's presence, truth, consistency with the action and repetition; its progress.

Each is a named pure function from one turn to a score, weighted by the run's settings. Installed packages add terms
under the entry-point group "echoscope.rewards".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points

from envs.base import ArmsBoard, GridBoard, PageBoard, TextBoard
from trainer.metrics.text import ngrams, words

GROUP = "echoscope.rewards"
MIN_WORDS = 3
NGRAM = 4


@dataclass(frozen=True)
class TurnContext:
    """Inputs of a term: one turn, after its actions were executed.

    `thought` is empty if the policy wrote none; `earlier_thoughts` are the thoughts of earlier turns, oldest first.
    `actions` are the answer's actions in order, executed or not; `action_names` are all actions of the environment
    (empty if any text is an action). `board` is the state before the turn. `chance_before` and `chance_after` are the
    chances of success if optimal play followed within the budget, 0 once the trajectory has ended; None if unknown.
    """

    thought: str
    earlier_thoughts: tuple[str, ...]
    actions: tuple[str, ...]
    action_names: tuple[str, ...]
    board: GridBoard | ArmsBoard | PageBoard | TextBoard
    chance_before: float | None = None
    chance_after: float | None = None


RewardTerm = Callable[[TurnContext], float]


class RewardTermError(ValueError):
    """A term failed or returned no finite number. The message names it."""


def thought_present(turn: TurnContext) -> float:
    """Return 1 if the thought has at least three different words, else 0: repeating one word is not a thought."""
    return float(len(set(words(turn.thought))) >= MIN_WORDS)


_THINGS = {
    "sokoban": {"player": "@+", "box": "$*", "target": ".*+"},
    "frozen_lake": {"player": "@+X", "goal": "G+", "hole": "OX"},
}
_NAMES = {"i am": "player", "player": "player", "box": "box", "target": "target", "goal": "goal", "hole": "hole"}
_PLACE = r"\(?\b(\d{1,2})\s*,\s*(\d{1,2})\b\)?"
_CLAIM = re.compile(
    rf"\b(I am|player|box|target|goal|hole)(?:es|s)?\b:?\s+(?:(?:is|are|at|on|stands|in)\s+)*"
    rf"((?:{_PLACE}(?:\s*(?:,|;|and)?\s*))+)".replace(r"(\d", r"(?:\d"),
    re.IGNORECASE,
)


def facts_true(turn: TurnContext) -> float:
    """Return the share of the positions stated in the thought that are true on the board; 0 if none is stated.

    Recognises sentences such as "I am at 3,4", "Box 2,4 2,5", "the target is at (1, 1)": row and column counted from 1,
    on the boards that name their pieces (Sokoban, FrozenLake).
    """
    board = turn.board
    pieces = _THINGS.get(board.theme, {}) if isinstance(board, GridBoard) else {}
    if not pieces or not isinstance(board, GridBoard):
        return 0.0
    claims = [
        (_NAMES[name.lower()], int(row), int(column))
        for name, places in _CLAIM.findall(turn.thought)
        for row, column in re.findall(_PLACE, places)
        if _NAMES[name.lower()] in pieces
    ]
    if not claims:
        return 0.0
    return sum(_stands(board.rows, pieces[name], row, column) for name, row, column in claims) / len(claims)


def _stands(rows: list[str], symbols: str, row: int, column: int) -> bool:
    return 0 < row <= len(rows) and 0 < column <= len(rows[row - 1]) and rows[row - 1][column - 1] in symbols


def action_follows(turn: TurnContext) -> float:
    """Return 1 if the last action named in the thought is among the answer's, else 0 (also if it names none)."""
    named = [word for word in words(turn.thought) if word in {name.lower() for name in turn.action_names}]
    if not turn.action_names:  # any text is an action: the thought must contain it
        text = " ".join(words(turn.thought))
        return float(any(" ".join(words(action)) in text for action in turn.actions if words(action)))
    return float(bool(named) and named[-1] in {action.lower() for action in turn.actions})


def repeats(turn: TurnContext) -> float:
    """Return the share of word 4-grams that also occur in the previous thought; meant for a negative weight."""
    if not turn.earlier_thoughts:
        return 0.0
    current, previous = ngrams(words(turn.thought), NGRAM), set(ngrams(words(turn.earlier_thoughts[-1]), NGRAM))
    return sum(gram in previous for gram in current) / len(current) if current else 0.0


PROGRESS = "progress"


def progress(turn: TurnContext) -> float:
    """Return by how much the turn changed the chance of success under optimal play; 0 if it is unknown.

    This is potential-based shaping without a discount (A. Ng, D. Harada and S. Russell 1999): over a trajectory it adds
    up to minus the chance at its start, which all trajectories of a group share. It therefore changes nothing where a
    trajectory has a single advantage, and otherwise moves credit between turns. It keeps the best policy the best only
    if turns are not discounted (`turn_gamma` 1).
    """
    if turn.chance_before is None or turn.chance_after is None:
        return 0.0
    return turn.chance_after - turn.chance_before


BUILT_IN_TERMS: dict[str, RewardTerm] = {
    "thought_present": thought_present,
    "facts_true": facts_true,
    "action_follows": action_follows,
    "repeats": repeats,
    PROGRESS: progress,
}


def term_names() -> list[str]:
    """Return the names of all terms: the built-in ones, then the ones of installed packages."""
    return [*BUILT_IN_TERMS, *sorted(_installed())]


@lru_cache(maxsize=1)
def _installed() -> dict[str, str]:
    """Map names to entry points of terms in installed packages; built-in names take precedence."""
    return {entry.name: entry.value for entry in entry_points(group=GROUP) if entry.name not in BUILT_IN_TERMS}


def find_term(name: str) -> RewardTerm:
    """Return the term with a name. Raises ValueError with the choices, or with the reason why it cannot be loaded."""
    return BUILT_IN_TERMS[name] if name in BUILT_IN_TERMS else _load(name)


@lru_cache
def _load(name: str) -> RewardTerm:
    """Load the term of an installed package, once: terms are scored at every turn."""
    for entry in entry_points(group=GROUP, name=name):
        try:
            term: RewardTerm = entry.load()
        except Exception as error:
            raise ValueError(f"the reward term {name!r} ({entry.value}) cannot be loaded: {error}") from error
        if not callable(term):
            raise ValueError(f"the reward term {name!r} ({entry.value}) is not a function")
        return term
    raise ValueError(f"there is no reward term {name!r}; choose among {', '.join(term_names())}")


def score(weights: Mapping[str, float], turn: TurnContext) -> dict[str, float]:
    """Return weight × score of each named term. Raises RewardTermError if one fails or returns no finite number."""
    scores = {}
    for name, weight in weights.items():
        try:
            value = float(find_term(name)(turn))
        except Exception as error:
            raise RewardTermError(f"the reward term {name!r} failed: {type(error).__name__}: {error}") from error
        if not math.isfinite(value):
            raise RewardTermError(f"the reward term {name!r} returned {value}, which is not a finite number")
        scores[name] = weight * value
    return scores
