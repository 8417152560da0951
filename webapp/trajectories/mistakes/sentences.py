"""Mistakes and verdicts as sentences: turns and actions are counted from 1."""

from __future__ import annotations

from webapp.core.formatting import plural
from webapp.trajectories.mistakes.steps import Data, JudgedAction

SMALL = 0.05
"""Chance of success below which no move is worth mentioning as the better one."""
MAX_NAME = 60
"""Characters of an action in a sentence: answers may be long texts."""


def mistake_sentence(step: JudgedAction) -> str:
    """Return a sentence about a wrong action, and the better one."""
    return f"{turn_label(step)}: {_fault(step)} {_better(step)}".strip()


def turn_label(step: JudgedAction) -> str:
    """Return the turn, with the action if the turn has several of the same name."""
    return f"Turn {step.turn + 1}" + (f", action {step.action + 1}" if step.named > 1 else "")


def slip_sentence(step: JudgedAction) -> str:
    """Return a sentence about an action that was right, or nearly so, and lost the attempt by chance."""
    name, where = action_label(step.name), "into a hole" if _in_hole(step) else "out of play"
    went, best = step.record.get("actual"), step.name in step.better
    value, kept = step.value or 0.0, step.kept or 0.0
    rest = (
        "" if best else f" {action_label(step.better[0])} was best: it kept {percent(value)} against {percent(kept)}."
    )
    if not best and value < SMALL:
        rest = " No move had more than a small chance."
    if went:
        praise = "was the best move" if best else "was a fair move"
        return f"{turn_label(step)}: {name} {praise}, but the ice carried the player {str(went).lower()} {where}.{rest}"
    return f"{turn_label(step)}: {name} led {where}" + (", though no other move was better." if best else f".{rest}")


def unfinished_sentence(hint: Data | None, board: Data, ran_out_of: str) -> str:
    """Return a sentence about an attempt that could still have been won; empty if the solver does not know."""
    if hint is None or hint.get("solvable", "yes") != "yes":
        return ""
    distance, chance, kind = hint.get("distance"), hint.get("value"), board.get("kind")
    if kind == "text" and hint.get("actions"):
        return f"The agent ran out of {ran_out_of} without the right answer: {action_label(hint['actions'][0])}."
    if kind == "arms":
        return f"The agent ran out of {ran_out_of} without a pull."
    if distance:
        return f"Still solvable in {moves(int(distance), board)}, but the agent ran out of {ran_out_of}."
    if distance is None and chance and kind == "grid":
        return f"Best play still wins {percent(chance)} of the time from here, but the agent ran out of {ran_out_of}."
    return ""


def hopeless_sentence(distance: int, limit: int, board: Data) -> str:
    """Return a sentence about a puzzle that needs more actions than the agent was given."""
    return f"Out of reach from the start: it takes {moves(distance, board)}, and the agent had {limit}."


def moves(count: int, board: Data) -> str:
    """Return a number of actions, which are called moves on grids."""
    return plural(count, "move" if board.get("kind") == "grid" else "action")


def percent(share: float) -> str:
    """Return a chance in whole percent: “18%”, “under 1%”."""
    if 0 < share < 0.005:
        return "under 1%"
    return "over 99%" if 0.995 <= share < 1 else f"{share:.0%}"


def action_label(action: str) -> str:
    """Return an action for a sentence; texts that are not names are quoted."""
    short = action if len(action) <= MAX_NAME else action[: MAX_NAME - 1].rstrip() + "…"
    return short if short.replace(" ", "").isalpha() else f"“{short}”"


def _fault(step: JudgedAction) -> str:
    name = action_label(step.name)
    kind = step.before.get("kind")
    if step.random:
        return _lost_chance(step, name)
    if kind == "text" and not step.dead_end:
        return f"{name} was wrong."
    if step.dead_end:
        reason = str((step.hint_after or {}).get("reason") or "")
        if kind == "arms":
            return f"{name} pays less on average."
        if kind in ("text", "page"):
            return f"{name} was wrong" + (f": {reason}." if reason else ".")
        return _dead_end(step, name, reason)
    return _detour(step, name)


def _dead_end(step: JudgedAction, name: str, reason: str) -> str:
    if _in_hole(step):
        return f"{name} led into a hole."
    what, _, where = reason.partition(" box is ")
    if where and what in ("the", "a"):
        return f"{name} locked {what} box {where}."
    what, _, where = reason.partition(" box can no longer be pushed to ")
    if where and what in ("the", "a"):
        return f"{name} pushed {what} box to where it can no longer reach {where}."
    if reason.startswith("no sequence of pushes"):
        return f"{name} made the puzzle unsolvable."
    return f"{name} made the puzzle unsolvable" + (f": {reason}." if reason else ".")


def _lost_chance(step: JudgedAction, name: str) -> str:
    previous_chance, remaining_chance = percent(step.value or 0.0), percent(step.kept or 0.0)
    if not step.kept:
        return f"{name} gave up a {previous_chance} chance of success."
    fault = f"{name} cut the chance of success from {previous_chance} to {remaining_chance}"
    return f"{fault}, and the player fell into a hole." if step.dead_end and _in_hole(step) else f"{fault}."


def _detour(step: JudgedAction, name: str) -> str:
    needed = int((step.hint_before or {}).get("distance") or 0)
    now = int((step.hint_after or {}).get("distance") or 0)
    what = "changed nothing" if not step.record.get("effective", True) else "was a detour"
    left = step.left - 1
    if now > left:
        rest = f"only {left} {'was' if left == 1 else 'were'} left" if left else "none was left"
        return f"{name} {what}, and with {moves(now, step.before)} still needed {rest}."
    needs = f"all {left} left" if now == left > 1 else f"{now} of the {left} left" if left > 1 else "the last one"
    cost = moves(now + 1 - needed, step.before)
    return f"{name} {what} and cost {cost}; {needs} {'are' if now > 1 else 'is'} needed now."


def _better(step: JudgedAction) -> str:
    if not step.better:
        return ""
    kind = step.before.get("kind")
    best = action_label(step.better[0])
    distance = (step.hint_before or {}).get("distance")
    if kind == "text" and (distance or 0) <= 1:  # else a call of a tool comes first
        return f"A correct answer: {best}."
    if kind == "arms":
        return f"{best} was the better pull."
    if step.random or distance is None:
        return f"{best} was best."
    distance = int(distance)
    if distance > step.left:
        return f"It was too late to win anyway: {moves(distance, step.before)} needed, {step.left} left."
    if not step.dead_end and step.kept:
        return f"{best} was best."
    return f"{best} would have won at once." if distance == 1 else f"{best} would have won in {distance}."


def _in_hole(step: JudgedAction) -> bool:
    board = step.after
    return board.get("theme") == "frozen_lake" and any("X" in row for row in board["rows"])
