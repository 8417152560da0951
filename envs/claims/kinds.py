"""Kinds of claims by subject. Facets, filters and exports name them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

OTHER = "other"
"""Kind of claims without a kind, such as claims in your own environments."""

CLAIM_KINDS: Mapping[str, str] = MappingProxyType({
    "own_position": "own position", "box_position": "box position", "target_position": "target position",
    "goal_position": "goal position", "hole_position": "hole position", "direction": "direction or distance",
    "neighbour": "neighbouring cell", "wall": "wall or corner", "boxes_on_targets": "boxes on targets",
    "count": "number of things", "size": "size of the grid", "way": "way to the goal",
    "arms": "arms and their order", "pulls": "number of pulls", "payment": "payments of arms",
    "task": "target or numbers", "result": "intermediate result", "comparison": "comparison of numbers",
    "price": "price", "rating": "rating", "options": "options of a product",
    "search_results": "search results", "page": "kind of page", "request": "limit of the request", OTHER: "other",
})  # fmt: skip
"""Kind → label, in the order of lists: grids, bandits, Countdown, the shop."""


def known_kind(kind: str | None) -> str:
    """Return the kind if it is in CLAIM_KINDS, else OTHER."""
    return kind if kind is not None and kind in CLAIM_KINDS else OTHER
