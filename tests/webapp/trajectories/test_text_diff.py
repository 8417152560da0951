"""Word-level diff of two thoughts: lossless, with common text shown once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from webapp.trajectories.text_diff import MAX_WORDS, compare_turns, word_diff

WORDS = st.lists(st.sampled_from(["push", "the", "box", "up", "down", "(2,", "3)", "row_7", "…"]), max_size=20)


def joined(pieces: object) -> str:
    return "".join(piece.text for piece in pieces)  # type: ignore[attr-defined]


@given(WORDS, WORDS)
def test_each_side_of_a_diff_keeps_its_text(left: list[str], right: list[str]) -> None:
    text = word_diff(" ".join(left), " ".join(right))
    assert joined(text.left) == " ".join(left)
    assert joined(text.right) == " ".join(right)
    assert text.same == (left == right)


def test_only_changed_words_are_marked() -> None:
    text = word_diff("I push the box up twice.", "I push the barrel up twice.")
    assert [(piece.kind, piece.text.strip()) for piece in text.pieces] == [
        ("same", "I push the"),
        ("gone", "box"),
        ("new", "barrel"),
        ("same", "up twice."),
    ]


def test_very_long_thoughts_are_shown_without_a_diff() -> None:
    left, right = ("word " * MAX_WORDS + extra for extra in ("a", "b"))
    text = word_diff(left, right)
    assert [piece.kind for piece in text.pieces] == ["gone", "new"]
    assert joined(text.left) == left
    assert word_diff(left, left).same


def turn(thought: str, answer: str = "Up", **more: object) -> dict[str, object]:
    return {"thought": thought, "answer": answer, "state": "S", "format_valid": True, "response": "R"} | more


def test_turns_are_paired_and_the_longer_trajectory_continues_alone() -> None:
    pairs = compare_turns([turn("a"), turn("b")], [turn("a"), turn("c"), turn("d")])
    assert [pair.same for pair in pairs] == [True, False, False]
    assert pairs[2].left is None
    assert [piece.kind for piece in pairs[2].thought.pieces] == ["new"]
    assert compare_turns([], []) == []


def test_malformed_responses_are_compared_verbatim() -> None:
    broken = turn("", "", format_valid=False, response="I just talk")
    [pair] = compare_turns([broken], [turn("I think")])
    assert joined(pair.thought.left) == "I just talk"


def test_turns_from_different_states_are_marked() -> None:
    [pair] = compare_turns([turn("a")], [turn("a", state="T")])
    assert pair.same
    assert not pair.same_state
