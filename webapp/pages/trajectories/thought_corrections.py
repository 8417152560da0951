"""Thoughts of an attempt with their false positions put right, as the form of questions opens with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from envs.base import Claim
from envs.claims.corrections import CorrectedThought, Correction, corrected


class OfferedText(TypedDict):
    """A corrected thought, and what the form selects in it: start and end in UTF-16 units, as browsers count."""

    text: str
    start: int
    end: int


def offered_texts(turns: Iterable[Mapping[str, Any]]) -> dict[int, OfferedText]:
    """Return turn → the corrected thought, for every turn whose thought claims something false."""
    thoughts = {turn["turn"]: _corrected(turn) for turn in turns}
    return {turn: _offered(thought) for turn, thought in thoughts.items() if thought.claims}


def _corrected(turn: Mapping[str, Any]) -> CorrectedThought:
    claims = [Claim.model_validate(claim) for claim in turn.get("claims") or ()]
    return corrected(turn["thought"], claims)


def _offered(thought: CorrectedThought) -> OfferedText:
    """Select the first claim that is still false, for the reader to correct, otherwise the first correction."""
    first: Correction = next((claim for claim in thought.claims if claim.right is None), thought.claims[0])
    return OfferedText(
        text=thought.text, start=_units(thought.text[: first.start]), end=_units(thought.text[: first.end])
    )


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
