"""False positions in thoughts, put right: the words that change, and the claims that nobody can correct."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs import registry
from envs.base import Claim
from envs.claims.corrections import corrected
from tests.envs.claims.test_grid_claims import ROOM


def claim(start: int, end: int, true: bool = False, **facts: Any) -> Claim:
    return Claim(start=start, end=end, true=true, **facts)


@pytest.mark.parametrize(
    ("thought", "claims", "text", "words"),
    [
        ("Box 2,3.", [claim(0, 7, cells=[(1, 2)], actual_cells=[(2, 4)])], "Box 3,5.", [("Box 2,3", "Box 3,5")]),
        (
            "😀 Box at row 2, column 3.",
            [claim(2, 24, cells=[(1, 2)], actual_cells=[(9, 9)])],
            "😀 Box at row 10, column 10.",
            [("Box at row 2, column 3", "Box at row 10, column 10")],
        ),
        (
            "column 3, row 3",
            [claim(0, 15, cells=[(2, 2)], actual_cells=[(1, 4)])],
            "column 3, row 3",
            [("column 3, row 3", None)],
        ),
        ("Box 3,2.", [claim(0, 7, cells=[(1, 2)], actual_cells=[(2, 4)])], "Box 3,2.", [("Box 3,2", None)]),
        ("Box 2,3.", [claim(0, 7, cells=[(1, 2)], actual_cells=[(2, 4), (3, 3)])], "Box 2,3.", [("Box 2,3", None)]),
        (
            "Box 2 down and 3 right.",
            [claim(0, 22, cells=[(1, 2)], actual_cells=[(2, 4)], placed="box_position")],
            "Box 2 down and 3 right.",
            [("Box 2 down and 3 right", None)],
        ),
        (
            "I am here. Box 2,3.",
            [claim(11, 18, cells=[(1, 2)], actual_cells=[(0, 0)]), claim(0, 9)],
            "I am here. Box 1,1.",
            [("I am here", None), ("Box 2,3", "Box 1,1")],
        ),
        ("Box 2,3.", [claim(0, 7, true=True)], "Box 2,3.", []),
        ("Box 2,3.", [claim(0, 70)], "Box 2,3.", []),
    ],
)
def test_false_positions_are_put_right_and_the_rest_stays(
    thought: str, claims: list[Claim], text: str, words: list[tuple[str, str | None]]
) -> None:
    found = corrected(thought, claims)
    assert found.text == text
    assert [(claim.words, claim.right) for claim in found.claims] == words
    shown = [text[claim.start : claim.end] for claim in found.claims]
    assert shown == [right or wrong for wrong, right in words]


@given(st.lists(st.integers(1, 6), min_size=6, max_size=6))
def test_what_is_put_right_is_no_longer_false(numbers: list[int]) -> None:
    """As the reader of claims judges the corrected thought, whatever the positions in it were."""
    player, box, target = (f"{row},{column}" for row, column in zip(numbers[::2], numbers[1::2], strict=True))
    thought = f"I am at {player}. The box is at {box}. The target is at {target}."
    right = corrected(thought, registry.read_claims("Sokoban", thought, ROOM) or [])
    again = registry.read_claims("Sokoban", right.text, ROOM) or []
    false = {place for claim in again if not claim.true for place in range(claim.start, claim.end)}
    assert not any(false.intersection(range(claim.start, claim.end)) for claim in right.corrections)
