"""A batch equals its single environments, for all seeds, settings and actions."""

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from hypothesis import given, settings
from hypothesis import strategies as st

import envs
from envs import registry
from envs.bandit import Bandit
from envs.base import EnvSpec, TextBoard, TextEnv
from envs.sokoban.sokoban_env import Sokoban
from envs.vector import group_seeds, make_batch
from envs.vector.bandit_batch import BanditBatch
from envs.vector.frozen_lake_batch import FrozenLakeBatch
from envs.vector.loop import LoopBatch
from envs.vector.sokoban_batch import SokobanBatch
from tests.envs.playable_names import PLAYABLE

SEEDS = st.integers(0, 2**63)
LIMIT = st.one_of(st.none(), st.integers(1, 6))
WAYS = ("Up", "Down", "Left", "Right")
WORDS = st.sampled_from((*WAYS, "up", " LEFT ", "Jump", "", "√", 0, 1, 2, 3, 4, -1))
TURNS = st.lists(st.lists(WORDS, max_size=6), min_size=1, max_size=6)

SOKOBAN = st.fixed_dictionaries(
    {
        "size": st.integers(5, 9),
        "boxes": st.integers(1, 2),
        "vocabulary": st.sampled_from(("standard", "letters")),
        "max_steps": LIMIT,
    }
)
FROZEN_LAKE = st.fixed_dictionaries(
    {"size": st.integers(2, 7), "slippery": st.booleans(), "frozen": st.floats(0.4, 1), "max_steps": LIMIT}
)
BANDIT = st.fixed_dictionaries({"low_reward": st.floats(0, 1), "high_probability": st.floats(0, 1)})

ROOMS = (
    "#####\n#@$.#\n#####",
    "#######\n#  $ .#\n#.$ @ #\n#     #\n#######",
    "  #####\n###   #\n#.*$@ #\n# $.  #\n#######",
    "####\n#@*#\n####",
    "########\n#.$  $.#\n#   @  #\n#.$  $.#\n########",
)
MAPS = ("PG", "P_O\n_OG", "P____\nOOOO_\nG____", "P\n_\n_\nG")


class SingleEnvironments:
    """The rows as single environments, reported as a batch."""

    def __init__(self, name, count, chosen):
        self.envs = [envs.make(name, chosen) for _ in range(count)]
        self.ends = [None] * count
        self.taken = [0] * count

    def reset(self, row, seed, dynamics, options=None):
        text, info = self.envs[row].reset(seed=seed, options={"dynamics_seed": dynamics, **(options or {})})
        self.ends[row], self.taken[row] = (False, False, info["success"]), 0
        return text

    def step(self, row, actions):
        """Text, what each executed action did, and where the row stands."""
        env, recorded = self.envs[row], []
        for action in actions:
            if any(self.ends[row][:2]):
                break
            names = env.env_spec.actions
            word = action if isinstance(action, str) else names[action] if 0 <= action < len(names) else "no such"
            _, reward, terminated, truncated, info = env.step(word)
            self.ends[row] = (terminated, truncated, info["success"])
            self.taken[row] += info["valid"]
            recorded.append((reward, info["valid"], info["effective"], info["actual"]))
        return env.render(), recorded, self.ends[row]


def result_of_row(turn, row):
    """The same of one row of a batch's turn."""
    executed = turn.executed[row]
    recorded = zip(turn.rewards[row], turn.valid[row], turn.effective[row], turn.actual[row], strict=True)
    assert not turn.rewards[row][~executed].any()
    assert not turn.valid[row][~executed].any()
    assert not turn.effective[row][~executed].any()
    ends = (bool(turn.terminated[row]), bool(turn.truncated[row]), bool(turn.success[row]))
    return turn.texts[row], [facts for facts, done in zip(recorded, executed, strict=True) if done], ends


def play_both(name, chosen, seeds, turns, options=None):
    """Play the turns in a batch and in single environments, with resets of some rows in between, and compare."""
    count = len(seeds)
    batch, alone = make_batch(name, count, chosen), SingleEnvironments(name, count, chosen)
    options = options or [{}] * count
    dynamics = [seed // 3 for seed in seeds]
    texts = batch.reset(seeds, dynamics, options=options)
    assert texts == [alone.reset(row, seeds[row], dynamics[row], options[row]) for row in range(count)]
    assert batch.success.tolist() == [ends[2] for ends in alone.ends]
    for number, turn in enumerate(turns):
        given = [turn[row:] + turn[:row] if row % 3 else turn[: row + 1] for row in range(count)]
        played = batch.step(given)
        for row in range(count):
            assert result_of_row(played, row) == alone.step(row, given[row])
        if number == 1:
            rows = list(range(0, count, 2))
            again = batch.reset([7] * len(rows), rows, rows=rows)
            assert again == [alone.reset(row, 7, row) for row in rows]
    assert batch.texts() == [env.render() for env in alone.envs]
    assert batch.taken.tolist() == alone.taken


@pytest.mark.parametrize("name", ["Sokoban", "LargeSokoban", "SokobanNewVocab"])
@given(chosen=SOKOBAN, seeds=st.lists(SEEDS, min_size=1, max_size=5), turns=TURNS)
def test_array_sokoban_equals_scalar_sokoban(name, chosen, seeds, turns):
    play_both(name, chosen, seeds, turns)


@given(
    rooms=st.lists(st.sampled_from(ROOMS), min_size=1, max_size=6),
    counted=st.integers(0, 3),
    turns=st.lists(st.lists(st.sampled_from(WAYS), max_size=8), min_size=1, max_size=6),
)
def test_given_rooms_of_any_shape_fit_into_one_batch(rooms, counted, turns):
    options = [
        {"room": room, "boxes_on_target": counted} if number % 2 else {"room": room}
        for number, room in enumerate(rooms)
    ]
    play_both("Sokoban", {}, list(range(len(rooms))), turns, options)


@given(chosen=FROZEN_LAKE, seeds=st.lists(SEEDS, min_size=1, max_size=6), turns=TURNS)
def test_array_frozen_lake_equals_scalar_frozen_lake_slip_by_slip(chosen, seeds, turns):
    play_both("FrozenLake", chosen, seeds, turns)


@given(maps=st.lists(st.sampled_from(MAPS), min_size=1, max_size=6), turns=TURNS)
def test_given_lakes_of_any_shape_fit_into_one_batch(maps, turns):
    play_both("FrozenLake", {}, list(range(len(maps))), turns, [{"map": text} for text in maps])


def test_a_stream_of_slips_continues_beyond_the_first_block():
    wide = "\n".join(["P" + "_" * 19, *["_" * 20] * 18, "_" * 19 + "G"])
    turns = [["Left", "Up", "Left", "Up", "Jump"]] * 60
    play_both("FrozenLake", {}, [1, 2, 3], turns, [{"map": wide}] * 3)


@pytest.mark.parametrize("name", ["Bandit", "BanditRev", "BanditTest"])
@given(chosen=BANDIT, seeds=st.lists(SEEDS, min_size=1, max_size=6), data=st.data())
def test_array_bandits_equal_scalar_bandits(name, chosen, seeds, data):
    words = st.sampled_from((*envs.spec(name).actions, envs.spec(name).actions[0].upper(), "Jump", 0, 1, 2))
    turns = data.draw(st.lists(st.lists(words, max_size=3), min_size=1, max_size=3))
    play_both(name, chosen, seeds, turns)


@pytest.mark.parametrize("name", PLAYABLE)
@settings(max_examples=5)
@given(seeds=st.lists(st.integers(0, 2**31), min_size=1, max_size=3), data=st.data())
def test_every_environment_behaves_the_same_in_a_batch(name, seeds, data):
    words = st.sampled_from((*envs.spec(name).actions, "Jump", "search[red shoes]", "click[buy now]", "1 + 2"))
    play_both(name, {}, seeds, data.draw(st.lists(st.lists(words, max_size=3), min_size=1, max_size=4)))


def test_names_indices_and_arrays_of_indices_are_equivalent():
    batches = [make_batch("FrozenLake", 4) for _ in range(3)]
    for batch in batches:
        batch.reset([1, 2, 3, 4])
    indices = np.array([[2, 1, 9], [0, 0, -1], [3, 2, 1], [1, 1, 1]])
    names = envs.spec("FrozenLake").actions
    words = [[names[i] if 0 <= i < 4 else "Jump" for i in row] for row in indices.tolist()]
    first, *others = (batch.step(form) for batch, form in zip(batches, (words, indices, indices.tolist()), strict=True))
    for other in others:
        assert other.texts == first.texts
        for field in ("rewards", "executed", "valid", "effective", "actual", "terminated", "truncated", "success"):
            np.testing.assert_array_equal(getattr(other, field), getattr(first, field))
    single = batches[0].step(np.array([0, 1, 2, 3]))
    assert single.rewards.shape == (4, 1)


@pytest.mark.parametrize("name", ["Sokoban", "FrozenLake", "Bandit"])
def test_array_batches_support_variants_without_changed_rules(name):
    engine = {"Sokoban": SokobanBatch, "FrozenLake": FrozenLakeBatch, "Bandit": BanditBatch}[name]
    assert type(make_batch(name, 2)) is engine
    kind = registry.environment_class(name)
    assert engine.supports(type("Renamed", (kind,), {}))
    assert not engine.supports(type("Changed", (kind,), {"step": lambda self, action: kind.step(self, "Up")}))
    assert not engine.supports({"Sokoban": Bandit}.get(name, Sokoban))


class Echo(TextEnv):
    """Repeats the action; any text is an action, and "stop" ends the episode."""

    def __init__(self, settings=None, **overrides):
        super().__init__(settings, **overrides)
        self.env_spec = EnvSpec(
            name="Echo",
            title="Echo",
            summary="It repeats.",
            instruction="Say it.",
            vocabulary={},
            actions=(),
            max_turns=3,
            max_actions_per_turn=2,
            max_actions=6,
            success="Always.",
        )
        self.text = ""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.text = f"start {seed}"
        return self.text, {"success": False, "effective": False, "valid": True, "actual": None}

    def step(self, action):
        self.text, over = action, action == "stop"
        info = {"success": over, "effective": True, "valid": True, "actual": action[::-1]}
        return self.text, float(len(action)), over, False, info

    def render(self):
        return self.text

    def board(self):
        return TextBoard(text=self.text)


@pytest.fixture
def echo(monkeypatch):
    monkeypatch.setitem(registry.BUILT_IN, "Echo", f"{__name__}:Echo")


def test_a_third_party_environment_without_named_actions_uses_the_loop(echo):
    batch = make_batch("Echo", 3)
    assert isinstance(batch, LoopBatch)
    assert batch.reset([5, 6, 7]) == ["start 5", "start 6", "start 7"]
    turn = batch.step([["ab", "stop", "more"], "hello", []])
    assert turn.texts == ["stop", "hello", "start 7"]
    assert turn.rewards.tolist() == [[2, 4, 0], [5, 0, 0], [0, 0, 0]]
    assert turn.executed.tolist() == [[True, True, False], [True, False, False], [False] * 3]
    assert turn.actual.tolist() == [["ba", "pots", None], ["olleh", None, None], [None] * 3]
    assert turn.terminated.tolist() == turn.success.tolist() == [True, False, False]
    with pytest.raises(ValueError, match="any text is an action"):
        batch.step([[], 1, []])


@pytest.mark.parametrize("name", PLAYABLE)
def test_a_group_shares_its_start_and_each_member_has_its_own_dynamics(name):
    seeds, dynamics = group_seeds([3, 4], 4)
    assert seeds == [3] * 4 + [4] * 4
    assert len(set(dynamics)) == 8
    batch = make_batch(name, 8)
    texts = batch.reset(seeds, dynamics)
    assert len(set(texts[:4])) == len(set(texts[4:])) == 1
    assert (batch.seeds, batch.dynamics_seeds) == (seeds, dynamics)


@pytest.mark.parametrize("name", ["Sokoban", "Countdown"])
def test_invalid_turns_are_refused_with_the_reason(name):
    if name not in envs.names():
        pytest.skip(f"{name} is not built in")
    batch = make_batch(name, 2)
    with pytest.raises(ResetNeeded, match="reset"):
        batch.step([[], []])
    with pytest.raises(ValueError, match="3 seeds for 2 rows"):
        batch.reset([1, 2, 3])
    batch.reset([1, 2])
    with pytest.raises(ValueError, match="1 turns for 2 rows"):
        batch.step(["Up"])
    with pytest.raises(ValueError, match="at least one row"):
        make_batch(name, 0)


@pytest.mark.parametrize("name", PLAYABLE)
def test_a_turn_without_any_action_changes_nothing(name):
    batch = make_batch(name, 2)
    texts = batch.reset([1, 2])
    turn = batch.step([[], []])
    assert (turn.texts, turn.rewards.shape) == (texts, (2, 0))
