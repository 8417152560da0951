"""Gymnasium's make with its checker, and its make_vec."""

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

import envs
from tests.envs.playable_names import PLAYABLE


@pytest.mark.parametrize("name", PLAYABLE)
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


@pytest.mark.parametrize(("name", "settings"), [("Sokoban", {"max_steps": 2}), ("Bandit", {})])
def test_gymnasiums_own_vector_environment_plays_several_of_them(name, settings):
    env = gymnasium.make_vec(f"echoscope/{name}-v0", num_envs=3, settings=settings)
    single = envs.make(name, settings)
    texts, _ = env.reset(seed=[5, 6, 5])
    assert texts[0] == texts[2] == single.reset(seed=5)[0]
    env.action_space.seed(2)
    ended = 0
    for _ in range(6):
        texts, _, terminated, truncated, infos = env.step(env.action_space.sample())
        assert texts in env.observation_space
        assert infos["valid"].shape == (3,)
        ended += (terminated | truncated).sum()
    assert ended >= 3
    env.close()
