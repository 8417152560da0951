"""Claims of a thought in the player, without a browser: where the text is cut, and what tooltips say."""

from __future__ import annotations

from typing import Any

import pytest

from tests.webapp.javascript import evaluate


def claim(start: int, end: int, true: bool = True, **facts: Any) -> dict[str, Any]:
    return {"start": start, "end": end, "true": true} | facts


@pytest.mark.parametrize(
    ("thought", "claims", "parts"),
    [
        ("I am here.", [], [["I am here.", -1]]),
        ("I am here.", [claim(0, 4)], [["I am", 0], [" here.", -1]]),
        ("😀 I am 😀.", [claim(2, 8)], [["😀 ", -1], ["I am 😀", 0], [".", -1]]),
        ("one two", [claim(0, 3), claim(2, 5), claim(4, 7)], [["one", 0], [" ", -1], ["two", 2]]),
        ("short", [claim(2, 99), claim(3, 3)], [["short", -1]]),
    ],
)
def test_a_thought_is_cut_at_its_claims(thought: str, claims: list[dict[str, Any]], parts: list[list[Any]]) -> None:
    expression = "thoughtParts(data.thought, data.claims).map((part) => [part.text, part.claim])"
    assert evaluate("turns/claims.js", expression, {"thought": thought, "claims": claims}) == parts


def test_a_tooltip_gives_what_is_true_instead() -> None:
    false = claim(0, 4, true=False, actual="the box is at row 2, column 4")
    words = evaluate("turns/claims.js", "data.map(claimText)", [claim(0, 4), false, claim(0, 4, true=False)])
    assert words == ["True.", "False: the box is at row 2, column 4.", "False: the state says otherwise."]


def test_the_facts_of_a_turn_count_its_true_claims() -> None:
    turns = [{"claims": [claim(0, 2), claim(3, 4, true=False)]}, {"claims": [claim(0, 2)]}, {"claims": []}, {}]
    assert evaluate("turns/claims.js", "data.map(claimFacts)", turns) == [
        "1 of 2 claims true",
        "1 of 1 claim true",
        "",
        "",
    ]


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ([claim(0, 7)], ""),
        ([claim(0, 7, False, kind="wall", cells=[[1, 2]])], ""),
        (
            [claim(0, 7, False, kind="box_position", cells=[[1, 2]], actual="the box is at row 1, column 1")],
            "Translucent: where the thought sees it. In truth, the box is at row 1, column 1.",
        ),
        (
            [claim(0, 7, False, kind="box_position", actual="the box is at row 1, column 1")],
            "The thought names a place off the board. In truth, the box is at row 1, column 1.",
        ),
    ],
)
def test_a_misplaced_thing_is_named_even_if_it_cannot_be_drawn(claims: list[dict[str, Any]], words: str) -> None:
    assert evaluate("board/belief_overlay.js", "beliefText(data)", claims) == words
