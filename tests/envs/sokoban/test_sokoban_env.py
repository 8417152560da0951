"""Sokoban's rules as an environment."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import envs
from envs.sokoban.levels import LevelError
from envs.sokoban.sokoban_env import SokobanSettings

ROOM = "######\n#____#\n#_PXO#\n#____#\n#____#\n######"
actions = st.lists(st.sampled_from(["Up", "Down", "Left", "Right", "nonsense"]), max_size=40)


@given(seed=st.integers(0, 2**60), boxes=st.integers(1, 2), moves=actions)
def test_walls_are_fixed_boxes_are_conserved_and_the_board_matches_the_text(seed, boxes, moves):
    env = envs.make("LargeSokoban", {"size": 7, "boxes": boxes})
    text, _ = env.reset(seed=seed)
    walls = [cell == "#" for cell in text]
    for action in moves:
        before = env.player
        text, reward, terminated, truncated, info = env.step(action)
        assert [cell == "#" for cell in text] == walls
        assert text.count("X") + text.count("√") == boxes
        assert text.count("O") + text.count("√") + text.count("S") == boxes
        assert text.count("P") + text.count("S") == 1
        rows = text.split("\n")
        assert rows[env.player[0]][env.player[1]] in "PS"
        assert all(rows[row][column] in "X√" for row, column in env.boxes)
        assert all(rows[row][column] in "O√S" for row, column in env.targets)
        assert "\n".join(env.board().rows).translate(str.maketrans(" .*$@+", "_O√XPS")) == text
        assert info["effective"] == (before != env.player)
        assert info["success"] == terminated == (text.count("√") == boxes)
        assert not truncated
        if terminated:
            assert reward == 10.9
            break
        assert reward in ((-0.1, 0.9, -1.1) if info["valid"] else (0.0,))


def test_a_box_pushed_off_its_target_costs_one():
    env = envs.make("LargeSokoban")
    env.reset(options={"room": "#######\n#_____#\n#P√_XO#\n#_____#\n#_____#\n#######"})
    assert env.step("Up")[1] == -0.1
    env.step("Down")
    assert env.step("Right")[1] == -1.1


def test_a_given_room_is_read_in_every_vocabulary():
    standard, other = envs.make("Sokoban"), envs.make("SokobanNewVocab")
    xsb = "######\n#    #\n# @$.#\n#    #\n#    #\n######"
    assert standard.reset(options={"room": xsb})[0] == ROOM == standard.reset(options={"room": ROOM})[0]
    assert other.reset(options={"room": ROOM})[0] == "WWWWWW\nW....W\nW.ABGW\nW....W\nW....W\nWWWWWW"
    assert other.reset(options={"room": ROOM})[0] == other.reset(options={"room": xsb})[0]


def test_an_invalid_given_room_is_refused():
    with pytest.raises(LevelError, match="no box"):
        envs.make("Sokoban").reset(options={"room": "###\n#P#\n###"})


def test_the_new_vocabulary_writes_the_same_rooms():
    standard, other = envs.make("Sokoban"), envs.make("SokobanNewVocab")
    for seed in range(20):
        text, _ = standard.reset(seed=seed)
        assert other.reset(seed=seed)[0] == text.translate(str.maketrans("#_O√XPS", "W.GCBA@"))


def test_the_environment_ends_an_episode_only_if_configured():
    endless, short = envs.make("Sokoban"), envs.make("Sokoban", {"max_steps": 3})
    for env in (endless, short):
        env.reset(options={"room": ROOM})
    assert [short.step(action)[2:4] for action in ("Left", "what?", "Up", "Down")] == [
        (False, False),
        (False, False),
        (False, False),
        (False, True),
    ]
    assert all(endless.step("Left")[3] is False for _ in range(300))


def test_solving_at_the_last_allowed_step_is_success_not_truncation():
    env = envs.make("Sokoban", {"max_steps": 1})
    env.reset(options={"room": ROOM})
    assert env.step("Right")[1:4] == (10.9, True, False)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"min_length": 5, "max_length": 4}, "min_length 5 is above max_length 4"),
        ({"size": 8, "boxes": 4, "max_length": 3}, "4 boxes need at least as many actions"),
        ({"size": 5, "boxes": 3}, "3 boxes do not fit into a room of size 5"),
        ({"vocabulary": "emoji"}, "standard"),
    ],
)
def test_impossible_settings_are_refused_with_the_reason(wrong, message):
    with pytest.raises(ValidationError, match=message):
        SokobanSettings(**wrong)
