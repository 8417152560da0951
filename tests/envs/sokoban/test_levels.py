"""Levels as text."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.sokoban import levels
from envs.sokoban.rooms import make_room
from envs.support.rng import SeededRng, Stream

BOXOBAN = Path(__file__).parents[4] / "shared" / "data" / "boxoban"


@given(st.integers(0, 2**40), st.sampled_from(["xsb", *levels.SYMBOLS]), st.integers(1, 3))
def test_a_room_written_in_any_vocabulary_is_read_back_the_same(seed, vocabulary, boxes):
    level = make_room(SeededRng(seed, Stream.START), 8, boxes, 1, 6)
    rows = level.rows()
    text = "\n".join(rows) if vocabulary == "xsb" else levels.format_rows(rows, vocabulary)
    assert levels.parse(text) == level


@given(st.text(alphabet="#_O√XPS .$*@+W\nz", max_size=60))
def test_any_text_is_a_level_or_a_level_error(text):
    try:
        level = levels.parse(text)
    except levels.LevelError:
        return
    assert level.boxes | level.targets | {level.player} <= level.floor


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("#####\n#OX_#\n#####", "exactly one player, not 0"),
        ("#####\n#@$.@#\n######", "exactly one player, not 2"),
        ("#####\n#_P_#\n#####", "no box"),
        ("######\n#PXX_#\n#___O#\n######", "2 boxes but 1 targets"),
        ("######\n#@$.q#\n######", "'q' is not a character"),
        ("######\n#@$. \n######", "row 2, column 2 is not inside the walls"),
        ("#" * 51 + "\n#@$." + "#" * 47 + "\n" + "#" * 51, "at most 50"),
    ],
)
def test_invalid_level_text_is_refused_with_the_reason(text, message):
    with pytest.raises(levels.LevelError, match=message):
        levels.parse(text)


def test_rows_may_have_different_lengths():
    assert levels.parse("######\n#@$.#\n####### ").rows() == ["#######", "#@$.###", "#######"]


def test_floor_outside_the_walls_is_drawn_as_wall():
    level = levels.parse("  ####\n###@.#\n#  $ #\n######")
    assert level.rows() == ["######", "###@.#", "#  $ #", "######"]


def test_a_chamber_that_cannot_be_entered_stays_floor():
    text = "#######\n#PXO#_#\n#######"
    assert levels.format_rows(levels.parse(text).rows(), "standard") == text


@pytest.mark.skipif(not BOXOBAN.exists(), reason=f"no Boxoban levels at {BOXOBAN}")
@pytest.mark.parametrize("name", ["hard_000", "medium_valid_000", "unfiltered_test_000"])
def test_every_boxoban_level_is_read_as_written(name):
    texts = [part.split("\n", 1)[1].strip("\n") for part in (BOXOBAN / f"{name}.txt").read_text().split(";")[1:]]
    assert len(texts) >= 1000
    for text in texts:
        level = levels.parse(text)
        assert "\n".join(level.rows()) == text
        assert len(level.boxes) == 4
