"""What the form of questions begins with at a false claim: the corrected thought, and the part that is selected."""

from __future__ import annotations

from typing import Any

import pytest

from webapp.pages.trajectories.thought_corrections import offered_texts


def false(start: int, end: int, **facts: Any) -> dict[str, Any]:
    return {"start": start, "end": end, "true": False, **facts}


BOX = {"cells": [[1, 2]], "actual_cells": [[2, 4]]}


@pytest.mark.parametrize(
    ("thought", "claims", "text", "selected"),
    [
        ("😀 Box 2,3.", [false(2, 9, **BOX)], "😀 Box 3,5.", "Box 3,5"),
        ("I am here. Box 2,3.", [false(0, 9), false(11, 18, **BOX)], "I am here. Box 3,5.", "I am here"),
    ],
)
def test_the_first_open_claim_or_correction_is_selected_in_units_of_browsers(
    thought: str, claims: list[dict[str, Any]], text: str, selected: str
) -> None:
    offered = offered_texts([{"turn": 3, "thought": thought, "claims": claims}])[3]
    assert offered["text"] == text
    units = text.encode("utf-16-le")
    assert units[2 * offered["start"] : 2 * offered["end"]].decode("utf-16-le") == selected


def test_turns_without_a_false_claim_are_left_out() -> None:
    true = {"start": 0, "end": 7, "true": True}
    assert offered_texts([{"turn": 0, "thought": "Box 2,3.", "claims": [true]}, {"turn": 1, "thought": "x"}]) == {}
