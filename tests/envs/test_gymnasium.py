"""Gymnasium's make and make_vec, and its contract of vector environments."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, VectorEnv

import envs
from envs.vector import TextVectorEnv
from tests.envs.playable_names import PLAYABLE

NAMES = PLAYABLE
FAST = ("Sokoban", "FrozenLake", "Bandit")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("error")
def test_every_environment_is_constructed_checked_and_played_without_warnings(name):
    env = gymnasium.make(f"echoscope/{name}-v0", disable_env_checker=False)  # watches every reset and step, too
    text, info = env.reset(seed=1)
    assert text in env.observation_space
    env.action_space.seed(1)
    for _ in range(5):
        text, _, terminated, truncated, info = env.step(env.action_space.sample())
        assert text in env.observation_space
        assert set(info) >= {"success", "effective", "valid", "actual"}
        if terminated or truncated:
            env.reset()
    check_env(env.unwrapped)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("error")
def test_make_vec_makes_a_batch_that_keeps_gymnasiums_contract(name):
    env = gymnasium.make_vec(f"echoscope/{name}-v0", num_envs=3)
    assert isinstance(env, VectorEnv)
    assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    texts, infos = env.reset(seed=5)
    assert texts in env.observation_space
    assert texts == env.render()
    env.action_space.seed(2)
    for _ in range(6):
        texts, rewards, terminated, truncated, infos = env.step(env.action_space.sample())
        assert texts in env.observation_space
        assert (rewards.dtype, terminated.dtype, truncated.dtype) == (np.float64, np.bool_, np.bool_)
        for key in ("success", "effective", "valid", "actual"):
            assert infos[key].shape == infos[f"_{key}"].shape == (3,)
    env.close()


def same(first, second):
    """Whether two answers of vector environments are the same, infos and their masks included."""
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        return all(same(first[key], second[key]) for key in first)
    if isinstance(first, np.ndarray):
        assert first.dtype == second.dtype
        return np.array_equal(first, second)
    if isinstance(first, tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second)


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("name", NAMES)
def test_a_batch_equals_gymnasiums_loop_over_single_environments(name, mode):
    size = 3 if name == "RubiksCube" else 6
    wanted = {"max_steps": 4, "boxes": 1, "size": size, "min_length": 1}  # short episodes in rooms quickly drawn
    chosen = {key: value for key, value in wanted.items() if key in envs.settings_model(name).model_fields}
    identity, rows = f"echoscope/{name}-v0", 6
    batch = gymnasium.make_vec(identity, num_envs=rows, settings=chosen, autoreset_mode=mode)
    loop = gymnasium.make_vec(
        identity, num_envs=rows, settings=chosen, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}
    )
    assert same(batch.reset(seed=[3, 1, 4, 1, 5, 9]), loop.reset(seed=[3, 1, 4, 1, 5, 9]))
    names = [*envs.spec(name).actions, "Jump"]
    rng = np.random.default_rng(0)
    ended = 0
    for _ in range(25):
        actions = [names[number] for number in rng.integers(len(names), size=rows)]
        answer = batch.step(actions)
        assert same(answer, loop.step(actions))
        over = answer[2] | answer[3]
        ended += over.sum()
        if mode == AutoresetMode.DISABLED and over.any():
            assert same(batch.reset(options={"reset_mask": over}), loop.reset(options={"reset_mask": over}))
    assert ended or name not in FAST
    assert same(batch.reset(), loop.reset())
    assert same(batch.reset(seed=8), loop.reset(seed=8))


@pytest.mark.parametrize("name", NAMES)
def test_groups_share_the_initial_state_and_keep_their_recorded_seeds(name):
    env = gymnasium.make_vec(f"echoscope/{name}-v0", num_envs=12, members=4)
    assert env.metadata["autoreset_mode"] is AutoresetMode.DISABLED
    texts, _ = env.reset(seed=[7, 8, 9])
    assert [len(set(texts[first : first + 4])) for first in (0, 4, 8)] == [1, 1, 1]
    assert env.batch.seeds == [7] * 4 + [8] * 4 + [9] * 4
    assert len(set(env.batch.dynamics_seeds)) == 12
    single = envs.make(name)
    assert single.reset(seed=8)[0] == texts[4]
    assert env.reset(seed=7)[0] == texts
    env.reset()
    assert env.batch.seeds[0] == env.batch.seeds[3] != env.batch.seeds[4]
    assert not {7, 8, 9} & set(env.batch.seeds)
    assert env.reset(seed=7)[0] == texts


def test_a_group_is_reset_as_a_whole():
    env = TextVectorEnv("FrozenLake", 4, members=2)
    env.reset(seed=1)
    with pytest.raises(ValueError, match="whole groups"):
        env.reset(options={"reset_mask": np.array([True, False, False, False])})
    before = list(env.batch.seeds)
    env.reset(options={"reset_mask": np.array([False, False, True, True])})
    assert env.batch.seeds[:2] == before[:2]
    assert env.batch.seeds[2] == env.batch.seeds[3] != before[2]


def test_a_row_that_has_ended_does_not_change_until_its_group_is_reset():
    env = TextVectorEnv("Bandit", 4, members=2)
    env.reset(seed=1)
    pulled, _, over, _, _ = env.step([0, 0, "Jump", "Jump"])
    assert over.tolist() == [True, True, False, False]
    texts, rewards, over, _, infos = env.step([1, 1, 1, 1])
    assert texts[:2] == pulled[:2]
    assert rewards[:2].tolist() == [0, 0]
    assert over.all()
    assert infos["valid"].tolist() == [False, False, True, True]


@pytest.mark.parametrize("name", ["FrozenLake", "Bandit"])
def test_recorded_seeds_reproduce_the_episode(name):
    """Two members of a group take the same actions and slip differently; each slips the same from its seeds."""
    env = TextVectorEnv(name, 16, members=16)

    def played(**options):
        seen = [env.reset(seed=4, options=options)[0]]
        for _ in range(6):
            texts, rewards, _, _, infos = env.step(["Right" if name == "FrozenLake" else "Dragon"] * 16)
            seen.append((texts, rewards.tolist(), infos["actual"].tolist()))
        return seen

    first = played()
    assert len(set(first[0])) == 1
    assert len({(first[1][0][row], first[2][0][row], first[1][2][row]) for row in range(16)}) > 1
    recorded = list(env.batch.dynamics_seeds)
    assert played() == first
    assert played(dynamics_seeds=recorded) == first
    assert played(dynamics_seeds=recorded[::-1]) == [
        tuple(seen[::-1]) if number == 0 else tuple(part[::-1] for part in seen) for number, seen in enumerate(first)
    ]
    single = envs.make(name)
    for row in (3, 11):
        single.reset(seed=env.batch.seeds[row], options={"dynamics_seed": recorded[row]})
        for texts, rewards, actual in first[1:]:
            text, reward, terminated, _, info = single.step("Right" if name == "FrozenLake" else "Dragon")
            assert (text, reward, info["actual"]) == (texts[row], rewards[row], actual[row])
            if terminated:
                break


def test_invalid_vector_environments_are_refused_with_the_reason():
    with pytest.raises(ValueError, match="cannot be divided into groups of 3"):
        TextVectorEnv("Sokoban", 8, members=3)
    with pytest.raises(ValueError, match="the rows of a group start together"):
        TextVectorEnv("Sokoban", 8, members=2, autoreset_mode="NextStep")
    with pytest.raises(ValueError, match="'ansi'"):
        gymnasium.make_vec("echoscope/Sokoban-v0", num_envs=2, render_mode="human")
    env = TextVectorEnv("Sokoban", 4, {"size": 7}, members=2)
    with pytest.raises(ValueError, match="4 seeds for 2 groups"):
        env.reset(seed=[1, 2, 3, 4])
    with pytest.raises(ValueError, match="3 dynamics seeds for 4 rows"):
        env.reset(seed=1, options={"dynamics_seeds": [1, 2, 3]})
    with pytest.raises(TypeError, match="4 booleans"):
        env.reset(options={"reset_mask": [True] * 4})
    assert len(env.reset(seed=np.int64(3))[0][0].split("\n")) == 7
    with pytest.raises(ValueError, match="3 actions for 4 rows"):
        env.step(["Up"] * 3)
