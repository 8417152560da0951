"""Excerpts around what a search found: phrases are marked whole, and nothing is lost or cut within a word."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.webapp.javascript import evaluate
from webapp.explorer.excerpts import BEFORE, LENGTH, _densest, excerpt, search_patterns, search_phrases

TEXT = "Box 3,4 is right of wall 3. I go Right, so the box moves to 3,5 and target 4,2 is near."


def marked(query: str, text: str = TEXT) -> list[str]:
    return [piece for piece, found in excerpt(text, search_patterns(query)) if found]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ('"box 3,4"', ["Box 3,4"]),
        ("3,4", ["3,4"]),
        ("right", ["right", "Right"]),
        ('"right of" target', ["right of", "target"]),
        ("box -wall", ["Box", "box"]),
        ("corner or target", ["target"]),
        ('"go right" 4,2', ["go Right", "4,2"]),
        ("ox", []),
        ("-box", []),
    ],
)
def test_phrases_and_words_are_marked_as_they_are_searched_for(query: str, wanted: list[str]) -> None:
    assert marked(query) == wanted


@pytest.mark.parametrize("query", ['"box 3,4"', "right", '"right of" target', "box -wall", "3,4 near corner", "c++ [a"])
def test_the_player_marks_the_same(query: str) -> None:
    text = f"{TEXT} C [a] bOX"
    phrases = search_phrases(query)
    expression = "[...data.text.matchAll(hitPattern(data.phrases))].map((hit) => [hit.index, hit[0]])"
    hits = evaluate("turns/search_hits.js", expression, {"text": text, "phrases": phrases})
    patterns = search_patterns(query)
    assert hits == sorted([hit.start(), hit.group()] for pattern in patterns for hit in pattern.finditer(text))
    assert hits


def test_the_part_with_the_most_of_the_search_is_shown() -> None:
    text = "wall " + "plain words go on " * 60 + "the wall is left of the hole, and more " + "plain words go on " * 20
    pieces = excerpt(text, search_patterns("wall hole"))
    assert [piece for piece, found in pieces if found] == ["wall", "hole"]
    assert pieces[0] == ("… ", False)
    assert pieces[-1] == (" …", False)


WORDS = st.lists(
    st.sampled_from(["box", "3,4", "Wall", "at", "row", "näher", "left-hand", "a"]), min_size=1, max_size=80
)


@given(WORDS, st.lists(st.sampled_from(["box", '"box 3,4"', "row", "-at", "or", '"', "näher"]), max_size=4))
def test_an_excerpt_is_a_part_of_the_text_that_begins_and_ends_between_words(
    words: list[str], query: list[str]
) -> None:
    text = " ".join(words)
    pieces = excerpt(text, search_patterns(" ".join(query)))
    shown = "".join(piece for piece, _ in pieces).removeprefix("… ").removesuffix(" …")
    assert shown in text
    assert set(shown.split()) <= set(words)
    for piece, found in pieces:
        if found:
            assert any(re.fullmatch(pattern, piece) for pattern in search_patterns(" ".join(query)))


@given(st.text(max_size=200), st.text(max_size=60))
def test_any_search_of_any_text_has_an_excerpt(text: str, query: str) -> None:
    pieces = excerpt(text, search_patterns(query))
    assert sum(len(piece) for piece, _ in pieces) <= len(text) + 4


def test_a_text_with_very_many_matches_is_read_in_linear_time() -> None:
    found = marked("a wall", "a " * 50_000)  # minutes, if each match were compared with each other one
    assert 50 < len(found) < LENGTH
    assert set(found) == {"a"}


@given(WORDS)
def test_the_first_part_with_the_most_patterns_is_chosen(words: list[str]) -> None:
    text, patterns = " ".join(words), search_patterns("box row wall")
    spans = sorted((m.start(), m.end(), at) for at, one in enumerate(patterns) for m in one.finditer(text))
    counts = [len({at for begin, _, at in spans if span[0] <= begin < span[0] + LENGTH - BEFORE}) for span in spans]
    wanted = spans[counts.index(max(counts))][:2] if spans else (0, 0)
    assert _densest(spans) == wanted
