"""Statistics of generated rooms: solvable, unsolved, of the requested difficulty, varied, repeatable."""

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import envs
from envs.sokoban import rooms
from envs.sokoban.boxoban import VARIABLE
from tests.tiers import nightly_but

ROOT = Path(envs.__file__).parents[1]
ROOMS = {"Sokoban": 2000, "LargeSokoban": 2000, "SokobanNewVocab": 2000, "Boxoban": 100}
CHI_SQUARE = {5: 20.5, 6: 22.5, 7: 24.3, 8: 26.1, 9: 27.9}
"""Degrees of freedom → what one set of rooms in a thousand would exceed by chance."""
HASHES = (
    "import envs, hashlib, json, sys\n"
    "def rooms(name, count):\n"
    "    env = envs.make(name)\n"
    "    return '\\n\\n'.join(env.reset(seed=seed)[0] for seed in range(count))\n"
    "wanted = json.loads(sys.argv[1]).items()\n"
    "print(json.dumps({name: hashlib.sha256(rooms(*more).encode()).hexdigest() for name, more in "
    "((name, (name, count)) for name, count in wanted)}))"
)


@pytest.fixture(autouse=True)
def no_levels_of_this_machine(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


def make_rooms(name):
    env = envs.make(name)
    return [env.reset(seed=seed)[0] for seed in range(ROOMS[name])]


@pytest.mark.parametrize("name", nightly_but(ROOMS, ["Sokoban"]))
def test_rooms_are_solvable_within_budget_unsolved_and_of_the_requested_length(name):
    env, count = envs.make(name), ROOMS[name]
    kind = env.settings
    lengths = Counter()
    for seed in range(count):
        _, info = env.reset(seed=seed)
        assert not info["success"]
        assert not env.level.boxes & env.level.targets
        lengths[env.hint().distance] += 1
    shortest = max(kind.min_length, kind.boxes)
    range_of = range(shortest, kind.max_length + 1)
    assert set(lengths) <= set(range_of)
    assert kind.max_length <= env.env_spec.max_actions
    weights = dict(zip(range_of, rooms.length_weights(range_of, kind.typical_length), strict=True))
    expected = {length: count * weight / sum(weights.values()) for length, weight in weights.items()}
    kept = [length for length in range_of if expected[length] >= 5]  # longer ones are counted together
    rest = [length for length in range_of if length not in kept]
    pairs = [(lengths[length], expected[length]) for length in kept[:-1]]
    last = [kept[-1], *rest]
    pairs.append((sum(lengths[length] for length in last), sum(expected[length] for length in last)))
    assert sum((seen - wanted) ** 2 / wanted for seen, wanted in pairs) < CHI_SQUARE[len(pairs) - 1]


@pytest.mark.parametrize(
    ("name", "median", "ninetieth", "fewest", "most"),
    [("Sokoban", 4, 8, 1, 10), ("LargeSokoban", 6, 8, 2, 10)],
)
def test_rooms_are_as_hard_as_those_of_the_reference(name, median, ninetieth, fewest, most):
    """Statistics of 200 rooms of RAGEN's generator, with its settings of these two; its 6×6 rooms go up to 14."""
    env, lengths = envs.make(name), []
    for seed in range(1000):
        env.reset(seed=seed)
        lengths.append(env.hint().distance)
    lengths.sort()
    assert (lengths[500], lengths[900], lengths[0], lengths[-1]) == (median, ninetieth, fewest, most)


@pytest.mark.parametrize("name", ROOMS)
def test_rooms_are_rarely_repeated(name):
    made = make_rooms(name)
    assert len(made) - len(set(made)) <= 0.01 * len(made)


@pytest.mark.nightly
def test_rooms_are_reproducible_across_processes():
    here = {name: hashlib.sha256("\n\n".join(make_rooms(name)).encode()).hexdigest() for name in ROOMS}
    again = {name: hashlib.sha256("\n\n".join(make_rooms(name)).encode()).hexdigest() for name in ROOMS}
    done = subprocess.run(
        [sys.executable, "-c", HASHES, json.dumps(ROOMS)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "54321"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert here == again == json.loads(done.stdout)
