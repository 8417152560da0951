from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.base import GridBoard, TextBoard
from trainer.algorithms import thought_rewards
from trainer.algorithms.thought_rewards import TurnContext

ROOM = GridBoard(theme="sokoban", rows=["######", "#  @.#", "# $  #", "#  $.#", "######"])
MOVES = ("Up", "Down", "Left", "Right")


def turn(thought: str = "", actions: tuple[str, ...] = (), **more: Any) -> TurnContext:
    facts = {"earlier_thoughts": (), "action_names": MOVES, "board": ROOM} | more
    return TurnContext(thought=thought, actions=actions, **facts)


@pytest.mark.parametrize(
    ("thought", "score"),
    [("", 0), ("...", 0), ("go go go go", 0), ("Box 2,4.", 1), ("I push left.", 1), ("Up up", 0)],
)
def test_thought_rewards_count_distinct_words(thought: str, score: float) -> None:
    assert thought_rewards.thought_present(turn(thought)) == score


@pytest.mark.parametrize(
    ("thought", "score"),
    [
        ("I am at 2,4. Box 3,3 4,4. Target 2,5 4,5.", 1.0),
        ("I am at 2,4. Box 3,4 4,4. Target 2,5.", 0.75),
        ("The boxes are at (3, 3) and (4, 4); the target is at 1,1.", 2 / 3),
        ("I am at 9,9.", 0.0),
        ("I am at 0,0. Box 3,3.", 0.5),
        ("Push Left from 2,5 to 2,3.", 0.0),
        ("nothing stated", 0.0),
        ("Goal 2,4.", 0.0),
    ],
)
def test_stated_positions_are_compared_with_the_board(thought: str, score: float) -> None:
    assert thought_rewards.facts_true(turn(thought)) == pytest.approx(score)


def test_a_lake_has_its_own_pieces_and_other_boards_none() -> None:
    lake = GridBoard(theme="frozen_lake", rows=["@ O", "  G"])
    assert thought_rewards.facts_true(turn("I am at 1,1. Goal 2,3. Hole 1,3.", board=lake)) == 1.0
    assert thought_rewards.facts_true(turn("I am at 1,1.", board=TextBoard(text="page"))) == 0.0


@pytest.mark.parametrize(
    ("thought", "actions", "score"),
    [
        ("I could go Down, but Left is better.", ("left", "Left"), 1),
        ("Left first, then Down.", ("Left",), 0),
        ("I go on.", ("Left",), 0),
        ("Left", (), 0),
    ],
)
def test_the_last_named_action_counts(thought: str, actions: tuple[str, ...], score: float) -> None:
    assert thought_rewards.action_follows(turn(thought, actions)) == score


def test_a_free_text_action_is_found_in_the_thought() -> None:
    assert thought_rewards.action_follows(turn("so 2 + 3 * 4 makes it", ("2 + 3 * 4",), action_names=())) == 1
    assert thought_rewards.action_follows(turn("so 2 + 3 makes it", ("2 + 3 * 4",), action_names=())) == 0


def test_repetition_is_the_share_of_phrases_from_the_previous_turn() -> None:
    before = "the box is next to me and I push"
    assert thought_rewards.repeats(turn(before, earlier_thoughts=(before,))) == 1.0
    assert thought_rewards.repeats(turn("something else that is new", earlier_thoughts=(before,))) == 0.0
    assert thought_rewards.repeats(turn(before)) == 0.0


@given(thought=st.text(max_size=200), actions=st.lists(st.text(max_size=8), max_size=4), before=st.text(max_size=60))
def test_every_term_returns_a_share_for_any_text(thought: str, actions: list[str], before: str) -> None:
    facts = turn(thought, tuple(actions), earlier_thoughts=(before,))
    for name, value in thought_rewards.score(dict.fromkeys(thought_rewards.BUILT_IN_TERMS, 1.0), facts).items():
        assert 0.0 <= value <= 1.0, name


def test_weights_multiply_and_unknown_names_list_the_choices() -> None:
    assert thought_rewards.score({"thought_present": -0.5}, turn("I push left")) == {"thought_present": -0.5}
    with pytest.raises(ValueError, match="no reward term 'wit'; choose among thought_present"):
        thought_rewards.find_term("wit")


def test_a_term_that_raises_or_returns_no_number_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(thought_rewards.BUILT_IN_TERMS, "broken", lambda turn: 1 / 0)
    monkeypatch.setitem(thought_rewards.BUILT_IN_TERMS, "endless", lambda turn: math.inf)
    with pytest.raises(thought_rewards.RewardTermError, match="'broken' failed: ZeroDivisionError"):
        thought_rewards.score({"broken": 1.0}, turn())
    with pytest.raises(thought_rewards.RewardTermError, match="'endless' returned inf"):
        thought_rewards.score({"endless": 1.0}, turn())


def test_an_entry_point_registers_a_term(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = tmp_path / "my_rewards-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: my-rewards\nVersion: 1.0\n")
    (record / "entry_points.txt").write_text("[echoscope.rewards]\nbrief = my_rewards:brief\nlost = my_rewards:lost\n")
    (tmp_path / "my_rewards.py").write_text("def brief(turn):\n    return float(len(turn.thought.split()) <= 20)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    thought_rewards._installed.cache_clear()
    try:
        assert thought_rewards.term_names()[-2:] == ["brief", "lost"]
        assert thought_rewards.score({"brief": 0.5}, turn("I push left")) == {"brief": 0.5}
        with pytest.raises(ValueError, match=r"'lost' \(my_rewards:lost\) cannot be loaded"):
            thought_rewards.find_term("lost")
    finally:
        thought_rewards._installed.cache_clear()
        thought_rewards._load.cache_clear()
