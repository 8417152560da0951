"""Rooms generated from a seed."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import envs
from envs.sokoban import rooms
from envs.sokoban.boxoban import VARIABLE
from envs.sokoban.rooms import NoRoomError, make_room
from envs.sokoban.solver import get_solver
from envs.support.rng import SeededRng, Stream

ROOT = Path(envs.__file__).parents[1]
PINNED = {
    "Sokoban": "ffa1fbfd71886e10",
    "LargeSokoban": "1825d72a40136cc4",
    "SokobanNewVocab": "c088c3ef21bec1af",
}
HASH = (
    "import envs, hashlib, sys; env = envs.make(sys.argv[1]); "
    "rooms = [env.reset(seed=seed)[0] for seed in range(200)]; "
    "print(hashlib.sha256('\\n\\n'.join(rooms).encode()).hexdigest()[:16])"
)


LARGE_OF_ANY_LENGTH = "3ee4d7bf9a0f6c9b"
"""LargeSokoban without a typical length."""


def hash_of(env):
    texts = "\n\n".join(env.reset(seed=seed)[0] for seed in range(200))
    return hashlib.sha256(texts.encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", PINNED)
def test_the_rooms_of_the_first_200_seeds_are_pinned(name):
    assert hash_of(envs.make(name)) == PINNED[name]


def test_large_rooms_without_a_typical_length_are_pinned():
    assert hash_of(envs.make("LargeSokoban", {"typical_length": None})) == LARGE_OF_ANY_LENGTH


def test_a_process_with_another_hash_seed_generates_the_same_rooms():
    done = subprocess.run(
        [sys.executable, "-c", HASH, "Sokoban"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "12345"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == PINNED["Sokoban"]


def test_rooms_are_varied_and_of_the_requested_difficulty():
    env = envs.make("Sokoban")
    texts, lengths = set(), []
    for seed in range(1000):
        texts.add(env.reset(seed=seed)[0])
        lengths.append(env.hint().distance)
    lengths.sort()
    assert len(texts) > 950
    assert (lengths[0], lengths[500], lengths[900], lengths[-1]) == (1, 4, 8, 10)


@given(
    seed=st.integers(0, 2**60),
    size=st.integers(6, 8),
    boxes=st.integers(1, 3),
    shortest=st.integers(1, 6),
    spread=st.integers(2, 5),
)
def test_a_room_is_closed_unsolved_and_solvable_in_the_requested_number_of_actions(seed, size, boxes, shortest, spread):
    level = make_room(SeededRng(seed, Stream.START), size, boxes, shortest, shortest + spread)
    rows = level.rows()
    assert len(rows) == size
    assert all(len(row) == size and row[0] == row[-1] == "#" for row in rows)
    assert set(rows[0]) == set(rows[-1]) == {"#"}
    assert not level.boxes & level.targets
    assert len(level.boxes) == len(level.targets) == boxes
    distance = get_solver(level).hint((level.player, tuple(sorted(level.boxes)))).distance
    assert shortest <= distance <= shortest + spread


@pytest.mark.parametrize(("typical", "within"), [(2, (3, 5)), (5, (4, 6)), (90, (7, 9))])
def test_lengths_gather_near_the_typical_one_moved_into_the_range(typical, within):
    env, lengths = envs.make("Sokoban", {"min_length": 3, "max_length": 9, "typical_length": typical}), []
    for seed in range(100):
        env.reset(seed=seed)
        lengths.append(env.hint().distance)
    assert 3 <= min(lengths) <= max(lengths) <= 9
    assert sum(within[0] <= length <= within[1] for length in lengths) > 70


def test_impossible_rooms_are_refused_with_advice():
    with pytest.raises(NoRoomError, match="widen the range of lengths, or take a larger room"):
        make_room(SeededRng(0, Stream.START), 5, 1, 90, 100)


LARGER = {
    "Boxoban": ({}, 30),
    "three boxes": ({"size": 8, "boxes": 3, "min_length": 3, "max_length": 20}, 30),
    "twenty by twenty": ({"size": 20, "boxes": 4, "min_length": 30, "max_length": 80}, 10),
    "one box far away": ({"size": 16, "boxes": 1, "min_length": 20, "max_length": 60}, 30),
}
PINNED_LARGER = {
    "Boxoban": "c94a5fc6dd2286e0",
    "three boxes": "34976486b49074d8",
    "twenty by twenty": "4d4948b1c2254e66",
    "one box far away": "567bea51cd80a8f9",
}


def larger_rooms(name):
    env = envs.make("Boxoban", {"path": "", **LARGER[name][0]})
    for seed in range(LARGER[name][1]):
        env.reset(seed=seed)
        yield env


@pytest.mark.parametrize("name", LARGER)
def test_rooms_with_many_boxes_and_large_rooms_are_pinned(name, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    texts = "\n\n".join(env.render() for env in larger_rooms(name))
    assert hashlib.sha256(texts.encode()).hexdigest()[:16] == PINNED_LARGER[name]


@pytest.mark.parametrize("name", LARGER)
def test_large_rooms_with_many_boxes_are_solved_in_the_requested_number_of_actions(name, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    for env in larger_rooms(name):
        assert not env.level.boxes & env.level.targets
        plan = env.plan()
        assert env.settings.min_length <= len(plan) <= env.settings.max_length
        for action in plan:
            _, _, terminated, _, _ = env.step(action)
        assert terminated


def test_a_room_too_large_for_exhaustive_play_is_generated_by_pulling_and_search(monkeypatch):
    monkeypatch.setattr(rooms, "_exhaustible", lambda size, boxes: False)
    made = [make_room(SeededRng(seed, Stream.START), 9, 2, 6, 30) for seed in range(20)]
    assert len({level.boxes for level in made}) > 15
    for level in made:
        assert not level.boxes & level.targets
        assert 2 <= get_solver(level).hint((level.player, tuple(sorted(level.boxes)))).distance <= 30
