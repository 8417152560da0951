"""Word-level diff of two thoughts: lossless, with common text shown once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from webapp.trajectories import text_diff
from webapp.trajectories.text_diff import PAGE_STEPS, PAIR_STEPS, compare_turns, word_diff

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


@given(st.text("ab (\n\t", max_size=40), st.text("ab (\n\t", max_size=40), st.sampled_from([0, 5, 60, PAIR_STEPS]))
def test_the_marks_rebuild_both_texts_whatever_the_limit(left: str, right: str, limit: int) -> None:
    text = word_diff(left, right, limit)
    assert joined(text.left) == left
    assert joined(text.right) == right


def test_repetitive_thoughts_are_shown_without_a_diff_after_a_limited_number_of_steps() -> None:
    left, right = "a b " * 749, "b a a " * 499
    text = word_diff(left, right)
    assert not text.compared
    assert [piece.kind for piece in text.pieces] == ["gone", "new"]
    assert joined(text.left) == left
    assert joined(text.right) == right
    assert text.steps <= PAIR_STEPS
    assert word_diff(left, left).same


def test_thoughts_without_a_common_sentence_are_compared() -> None:
    left = " ".join(f"step {number}: box {number % 7} is at row {number % 5}." for number in range(100))
    right = " ".join(f"move {number}, the wall is right of column {number % 6}." for number in range(100))
    assert word_diff(left, right).compared


def test_a_page_uses_its_steps_up_and_no_more() -> None:
    long, other = "a b " * 120, "b a a " * 80
    cost = word_diff(long, other).steps
    pairs = compare_turns([turn(long)] * 60, [turn(other)] * 60)
    compared = [pair.thought.compared for pair in pairs]
    assert compared == sorted(compared, reverse=True)
    assert sum(compared) == PAGE_STEPS // cost
    assert all(pair.answer.same for pair in pairs)


def test_a_page_has_a_limited_number_of_pairs() -> None:
    assert len(compare_turns([turn("a")] * 300, [])) == text_diff.MAX_PAIRS


def test_long_white_space_is_one_word() -> None:
    text = word_diff(" " * 60_000, "a")
    assert joined(text.left) == " " * 60_000


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
