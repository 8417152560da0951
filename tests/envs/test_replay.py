"""Episodes that are played again: what repeats them, what draws new luck, and what must not be repeated."""

from __future__ import annotations

from contextlib import closing

import pytest

from envs import registry
from envs.adapters.openenv_adapter import OpenEnv, OpenEnvSettings
from envs.base import TextEnv
from envs.pool import EnvironmentPool
from envs.registry import BUILT_IN

LUCKY = {
    "FrozenLake": ({"slippery": True}, ["Up", "Left", "Down", "Right"]),
    "Game2048": ({}, ["Up", "Left", "Down", "Right"]),
    "Gymnasium": ({"id": "FrozenLake-v1"}, ["Up", "Left", "Down", "Right"]),
}


def texts_after(env: TextEnv, actions: list[str], luck: int | None) -> list[str]:
    """The states after one action, perhaps new luck, and the others, as long as the episode goes on."""
    first, *rest = actions
    texts = [env.step(first)[0]]
    if luck is not None:
        env.reseed(luck)
        assert env.render() == texts[0], "luck changes nothing that has happened"
    for action in rest:
        text, _, terminated, truncated, _ = env.step(action)
        texts.append(text)
        if terminated or truncated:
            break
    return texts


@pytest.mark.parametrize("name", LUCKY)
def test_new_luck_changes_what_comes_and_repeats_with_its_seed(name: str) -> None:
    settings, actions = LUCKY[name]
    with closing(EnvironmentPool(name, settings, step_timeout=30, start_timeout=120)) as pool:

        def play(luck: int | None) -> list[str]:
            (env,) = pool.start([(3, 4)])
            assert isinstance(env, TextEnv)
            with closing(env):
                return texts_after(env, actions * 4, luck)

        recorded = play(None)
        assert play(None) == recorded
        others = [play(luck) for luck in range(5)]
        assert others == [play(luck) for luck in range(5)]
        assert any(other != recorded for other in others)
        assert {other[0] for other in others} == {recorded[0]}


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_environment_may_be_played_again(name: str) -> None:
    assert registry.replay_problem(name) == ""


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("ToolMCP", {"command": "server", "questions": "questions.jsonl"}, "tools of an MCP server may have effects"),
        ("ToolMCP", {"url": "http://localhost:9/mcp", "questions": "q.jsonl"}, "tools of an MCP server"),
    ],
)
def test_environments_whose_actions_have_effects_say_so(name: str, settings: dict[str, str], reason: str) -> None:
    assert reason in registry.replay_problem(name, settings)


def test_open_env_says_that_its_states_are_on_a_server() -> None:
    settings = OpenEnvSettings(id="http://localhost:8000")
    assert "on a server of OpenEnv" in OpenEnv.replay_problem(settings)


def test_unknown_environments_are_an_error() -> None:
    with pytest.raises(ValueError, match="unknown environment"):
        registry.replay_problem("Nowhere")
