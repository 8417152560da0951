"""Level files: lossless round trip, and errors that name the position."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import envs
from envs.sokoban import level_files
from envs.sokoban.level_files import LevelFileError
from envs.sokoban.rooms import make_room
from envs.support.rng import SeededRng, Stream
from tests.envs.sokoban.drawn import small_levels

BOXOBAN = Path(__file__).parents[4] / "shared" / "data" / "boxoban"
ROOM = "######\n#@$ .#\n######\n"
OWN = {
    "boxoban": "; 0\n######\n#@$ .#\n######\n\n; 1\n#####\n#+$ #\n#####\n\n",
    "windows line ends": "; 0\r\n######\r\n#@$ .#\r\n######\r\n\r\n; 1\r\n#####\r\n#+$ #\r\n#####",
    "titles after the level, no last line end": "  ####\n###@.#\n#  $ #\n######\nTitle: one\n\n#####\n#+$ #\n#####",
    "dashes for floor, ragged rows, spaces behind": "--####  \n###@.#\n#--$-#   \n######\n",
    "a byte order mark": "\ufeff######\n#@$ .#\n######\n",
    "policy symbols": "######\n#PX_O#\n######\n",
    "boxes on targets, three in a row, many blank lines": "\n\n\n#######\n#@$.* #\n#######\n\n\n\n" + ROOM + "\n\n",
}

levels = st.one_of(
    small_levels(), st.integers(0, 2**40).map(lambda seed: make_room(SeededRng(seed, Stream.START), 6, 1, 1, 6))
)
heads = st.sampled_from(["", "; 3", ";", "Level 4", "Title: a room", "'hm'", "\tx", "  ", "; # $ @"])


@pytest.mark.parametrize("name", OWN)
def test_a_file_is_written_as_it_was_read(name, tmp_path):
    path, copy = tmp_path / "own.txt", tmp_path / "copy.txt"
    path.write_bytes(OWN[name].encode())
    file = level_files.read_levels(path)
    level_files.write_levels(copy, file)
    assert copy.read_bytes() == path.read_bytes()
    assert len(file.levels) == OWN[name].count("@") + OWN[name].count("+") + OWN[name].count("P")


@given(
    parts=st.lists(st.tuples(st.lists(heads, max_size=3), levels), min_size=1, max_size=5),
    ends=st.sampled_from([["\n"], ["\r\n"], ["\r"], ["\n", "\r\n"]]),
    tail=st.lists(heads, max_size=3),
)
def test_any_level_file_round_trips(parts, ends, tail):
    lines = [line for head, level in parts for line in ["", *head, *level.rows()]] + ["", *tail]
    text = "".join(line + ends[number % len(ends)] for number, line in enumerate(lines))
    file = level_files.parse_levels(text)
    assert file.text() == text
    assert file.levels == [level for _, level in parts]
    rows_before = 0
    for found, (head, level) in zip(file.texts, parts, strict=True):
        rows_before += 1 + len(head)
        assert found.line == rows_before + 1
        rows_before += level.height


@given(st.text(alphabet="#@$.*+ ;0x\n\r\t-_P", max_size=80))
def test_any_text_round_trips_as_a_level_file_or_is_refused(text):
    try:
        file = level_files.parse_levels(text)
    except LevelFileError:
        return
    assert file.text() == text


def test_a_faulty_level_is_reported_with_file_position_and_reason(tmp_path):
    path = tmp_path / "bad.txt"
    path.write_text(f"; 0\n{ROOM}\n; 1\n####\n#@.#\n####\n\n; 2\n######\n#@$q.#\n######\n")
    with pytest.raises(LevelFileError) as refused:
        level_files.read_levels(path)
    message = str(refused.value)
    assert str(path) in message
    assert "2 of 3 levels" in message
    assert "level 2 (line 7): the level has no box" in message
    assert "level 3 (line 12): 'q' is not a character of a level" in message
    assert "Fix or remove them" in message


def test_a_file_with_many_faults_lists_ten_and_counts_the_rest():
    with pytest.raises(LevelFileError, match=r"25 of 25.*level 10 .*; and 15 more") as refused:
        level_files.parse_levels("####\n#@.#\n####\n\n" * 25)
    assert "level 11" not in str(refused.value)


def test_a_folder_is_read_in_name_order_and_reports_every_fault(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "b.txt").write_text(ROOM)
    (tmp_path / "deep" / "a.XSB").write_text("#####\n#+$ #\n#####\n")
    (tmp_path / "readme.md").write_text("no levels here")
    assert [level.width for level in level_files.find_levels(tmp_path)] == [6, 5]
    (tmp_path / "c.txt").write_text("#####\n#@$$.\n#####\n")
    (tmp_path / "d.txt").write_text("a poem\n")
    with pytest.raises(LevelFileError, match=r"(?s)c\.txt.*level 1 \(line 1\).*d\.txt: no level found"):
        level_files.find_levels(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no level found"),
        (b"######\n#@$ .#\n######\xff", "level 1 .line 1."),
        (b"\x89PNG\r\n\x1a\n\xff", "no level found"),
        (None, "No such file"),
    ],
)
def test_a_file_that_is_not_a_level_file_is_refused_by_name(tmp_path, content, message):
    path = tmp_path / "levels.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(LevelFileError, match=message) as refused:
        level_files.find_levels(path)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "cp437", "utf-8"])
def test_names_of_authors_in_any_encoding_are_read_and_written_with_the_same_bytes(tmp_path, encoding):
    data = f"Author: José\r\nTitle: Été 1\r\n\r\n{ROOM}\r\n; ñ\r\n".encode(encoding)
    (tmp_path / "levels.sok").write_bytes(data)
    file = level_files.read_levels(tmp_path / "levels.sok")
    assert [level.width for level in file.levels] == [level.width for level in level_files.parse_levels(ROOM).levels]
    level_files.write_levels(tmp_path / "copy.sok", file)
    assert (tmp_path / "copy.sok").read_bytes() == data


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(LevelFileError, match=r"no level file in this folder \(looked for \.txt"):
        level_files.find_levels(tmp_path)


def test_a_file_is_read_once_until_it_changes(tmp_path):
    path = tmp_path / "levels.txt"
    path.write_text(ROOM)
    first = level_files.read_levels(path)
    assert level_files.read_levels(path) is first
    path.write_text("#####\n#+$ #\n#####\n")
    os.utime(path, ns=(1, 1))
    assert level_files.read_levels(path).levels != first.levels


@pytest.mark.skipif(not BOXOBAN.exists(), reason=f"no Boxoban levels at {BOXOBAN}")
@pytest.mark.parametrize("name", ["hard_000", "medium_valid_000", "unfiltered_test_000"])
def test_every_boxoban_level_round_trips_and_can_be_stepped(name, tmp_path):
    path, copy = BOXOBAN / f"{name}.txt", tmp_path / "copy.txt"
    file = level_files.read_levels(path)
    level_files.write_levels(copy, file)
    assert copy.read_bytes() == path.read_bytes()
    assert len(file.levels) == 1000
    env = envs.make("Boxoban")
    for text in file.texts:
        env.reset(options={"room": text.rows})
        assert "\n".join(env.board().rows) + "\n" == text.rows
        moved = 0
        for action in ("Up", "Left", "Down", "Right"):
            observation, reward, terminated, _, info = env.step(action)
            moved += info["effective"]
            assert reward in (-0.1, 0.9, -1.1)
            assert not terminated
            assert observation.count("X") + observation.count("√") == 4
        assert moved
