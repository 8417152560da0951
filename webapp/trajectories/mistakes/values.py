"""Value of a position for an agent with limited actions, and the class of an action by its lost value.

The classes are named as on chess sites, which compare win chances before and after a move. The thresholds are defined
only here; docs/player.md explains them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

MarkClass = Literal["inaccuracy", "mistake", "blunder"]
THRESHOLDS: tuple[tuple[float, MarkClass], ...] = ((0.3, "blunder"), (0.2, "mistake"), (0.1, "inaccuracy"))
"""Smallest lost value of each class, the worst class first."""
GLYPHS: Mapping[MarkClass, str] = {"inaccuracy": "?!", "mistake": "?", "blunder": "??"}
HALVING = 2.0
"""Number of spare actions that halve the doubt about success; without any, the value is 0.5."""
_EXACT = 1e-9


def position_value(hint: Mapping[str, Any] | None, left: int) -> float | None:
    """Return the value of a position, 0 to 1, with `left` actions; None if the solver does not know.

    0 if it is unsolvable or needs more actions than are left, 1 if it is solved. Otherwise the spare actions count:
    with s of them 1 − 0.5 · 0.5^(s/HALVING). If the solver gives no distance, a solvable position is worth 1.
    """
    if hint is None or hint.get("solvable", "yes") == "unknown":
        return None
    if hint.get("solvable", "yes") == "no":
        return 0.0
    distance = hint.get("distance")
    if distance is None or distance == 0:
        return 1.0
    spare = left - int(distance)
    return 1.0 - 0.5 * 0.5 ** (spare / HALVING) if spare >= 0 else 0.0


def classify_loss(loss: float, *, dead_end: bool = False) -> MarkClass | None:
    """Return the class of an action with this lost value; None below all thresholds.

    An action that makes success impossible is at least a mistake, however little value was left before it.
    """
    mark_class = next((name for least, name in THRESHOLDS if loss >= least - _EXACT), None)
    return "mistake" if dead_end and mark_class in (None, "inaccuracy") else mark_class
