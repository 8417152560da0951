"""A comment on an attempt, from its solver, the claims of its thoughts and its outcome: what decided it, and why."""

from __future__ import annotations

from webapp.core.formatting import beginning, sentence
from webapp.trajectories.mistakes.sentences import moves
from webapp.trajectories.mistakes.steps import Data

MAX_QUOTE = 80
"""Characters of a quoted claim."""


def commentary(played: Data, outcome: str) -> str:
    """Return one or two sentences, such as “Turn 2: Down locked the box in a corner. Right would have won in 3.”

    Args:
        played: data of the player, with the verdict.
        outcome: sentence without a full stop, used if the solver has no verdict.
    """
    verdict = played.get("verdict")
    decisive = verdict["turn"] if verdict else len(played["turns"])
    said = verdict["sentence"] if verdict else _solved(played) or sentence(outcome)
    return f"{said} {_false_claim(played, decisive)}".rstrip()


def _solved(played: Data) -> str:
    """Return a sentence that compares the moves of a solved attempt on a grid with the solver's; else empty."""
    distance = (played.get("hint") or {}).get("distance")
    if not played.get("success") or not distance or played["board"].get("kind") != "grid":
        return ""
    used = sum(record["status"] == "executed" for turn in played["turns"] for record in turn["actions"])
    spare = used - int(distance)
    rest = "as few as possible" if spare <= 0 else f"{spare} more than needed"
    return f"Solved in {moves(used, played['board'])}, {rest}."


def _false_claim(played: Data, decisive: int) -> str:
    """Return a sentence about the first false claim whose truth is known, preferably of the decisive turn; or empty."""
    false = [
        (turn["turn"], turn["thought"][claim["start"] : claim["end"]], claim["actual"])
        for turn in sorted(played["turns"], key=lambda turn: turn["turn"] != decisive)
        for claim in turn.get("claims") or ()
        if not claim["true"] and claim.get("actual")
    ]
    if not false:
        return ""
    turn, quote, actual = false[0]
    return f"At turn {turn + 1} it thought “{beginning(quote, MAX_QUOTE)}”; in truth: {actual}."
