"""Sentences on how an attempt ended."""

from __future__ import annotations

from typing import Any

import pytest

from webapp.trajectories.mistakes.sentences import action_label, hopeless_sentence, percent, unfinished_sentence

GRID, TEXT, ARMS = {"kind": "grid"}, {"kind": "text"}, {"kind": "arms"}


@pytest.mark.parametrize(
    ("hint", "board", "sentence"),
    [
        (None, GRID, ""),
        ({"solvable": "no", "distance": 3}, GRID, ""),
        ({"distance": 1}, GRID, "Still solvable in 1 move, but the agent ran out of turns."),
        ({"distance": 3}, TEXT, "Still solvable in 3 actions, but the agent ran out of turns."),
        ({"value": 0.25}, GRID, "Best play still wins 25% of the time from here, but the agent ran out of turns."),
        ({"value": 0.0}, GRID, ""),
        ({"actions": ["3 + 4"]}, TEXT, "The agent ran out of turns without the right answer: “3 + 4”."),
        ({}, ARMS, "The agent ran out of turns without a pull."),
        ({}, TEXT, ""),
    ],
)
def test_an_unfinished_attempt_says_what_was_left(hint: dict[str, Any] | None, board: Any, sentence: str) -> None:
    assert unfinished_sentence(hint, board, "turns") == sentence


def test_a_puzzle_out_of_reach_says_what_it_takes() -> None:
    assert hopeless_sentence(12, 10, GRID) == "Out of reach from the start: it takes 12 moves, and the agent had 10."


def test_small_and_large_chances_are_not_rounded_to_certainty() -> None:
    shares = [0.0, 0.001, 0.18, 0.999, 1.0]
    assert [percent(share) for share in shares] == ["0%", "under 1%", "18%", "over 99%", "100%"]


def test_long_actions_are_cut_and_texts_are_quoted() -> None:
    assert action_label("Turn left") == "Turn left"
    assert action_label("x = 1") == "“x = 1”"
    assert action_label("y" * 500).endswith("…”")
