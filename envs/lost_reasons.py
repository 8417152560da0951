"""Codes of the reasons why a state is lost, read from the sentences that environments write into `Hint.reason`.

Journals store the sentence. Lists of attempts count and filter by the code, so that "the box is in a corner" and "a box
is in a corner" are one reason, and numbers in a sentence do not create another one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class LostReason:
    """A reason: its code, a short label for lists, and the sentences that express it."""

    code: str
    label: str
    sentences: re.Pattern[str]
    words: str = ""
    """Further search terms for it."""


def _reason(code: str, label: str, sentences: str, words: str = "") -> LostReason:
    return LostReason(code, label, re.compile(sentences), words)


OTHER = _reason("lost", "lost otherwise", "", "dead end stuck")
"""A lost state with an unknown sentence: environments of other packages write their own."""
LOST_REASONS = (
    _reason("box_corner", "box in a corner", r"(the|a) box is in a corner", "stuck cornered deadlock"),
    _reason("box_wall", "box against a wall", r"(the|a) box is against a wall", "stuck edge deadlock"),
    _reason("boxes_jammed", "boxes block each other", r"(two )?boxes block each other", "stuck jammed deadlock"),
    _reason("box_stranded", "box cut off from targets", r"(the|a) box can no longer be pushed to", "stuck deadlock"),
    _reason("targets_shared", "too few targets in reach", r"too many boxes can only be pushed", "stuck deadlock"),
    _reason("unsolvable", "no way to the target left", r"no sequence of pushes reaches", "stuck deadlock unsolvable"),
    _reason("hole", "fell into a hole", r"the player is in a hole", "drowned water ice"),
    _reason("no_way", "goal out of reach", r"no way leads to the goal", "unreachable blocked"),
    _reason("low_arm", "pulled the low arm", r"the low arm was pulled", "bandit wrong arm"),
    _reason("wrong_answer", "wrong answer", r"the answer (does not equal the target|was wrong)", "equation result"),
    _reason("no_equation", "no equation possible", r"no equation of these numbers", "numbers target"),
    _reason("no_move", "no move left", r"no move changes the board", "stuck full tiles 2048"),
    _reason("no_tries", "out of tries", r"no tries are left", "wrong answer attempts"),
    _reason("wrong_purchase", "wrong product bought", r"the purchase matches the request only", "buy shop option"),
)


def lost_reason(sentence: str) -> LostReason:
    """Return the reason that an environment's sentence expresses; OTHER if none is known."""
    return next((reason for reason in LOST_REASONS if reason.sentences.match(sentence)), OTHER)
