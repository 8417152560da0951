"""TextArena's games for one player, with the real package."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from gymnasium.error import ResetNeeded
from pydantic import ValidationError

import envs
from envs.base import TextEnv
from envs.pool import EnvironmentPool

pytest.importorskip("textarena", reason="textarena is not installed: pip install textarena")

GAMES = ["FifteenPuzzle-v0", "FrozenLake-v0", "GuessTheNumber-v0", "LightsOut-v0", "Minesweeper-v0", "TowerOfHanoi-v0"]
HANOI = ["[A C]", "[A B]", "[C B]", "[A C]", "[B A]", "[B C]", "[A C]"]


def make(game: str, **arguments: Any) -> TextEnv:
    return envs.make("TextArena", {"id": game, "arguments": arguments})


def test_games_for_one_player_are_variants() -> None:
    variants = envs.variants("TextArena")
    assert set(GAMES) <= set(variants)
    assert variants["TowerOfHanoi-v0"] == "TowerOfHanoi"
    assert not {"Chess-v0", "TowerOfHanoi-v0-raw", "TowerOfHanoi-v0-train"} & set(variants)


@pytest.mark.parametrize("game", GAMES)
def test_an_episode_follows_from_its_seeds(game: str) -> None:
    def play(env: TextEnv) -> list[Any]:
        seen: list[Any] = [env.reset(seed=2**62, options={"dynamics_seed": 3}), env.env_spec]
        for action in ("[up]", "[1 1]", "[3]", "[A C]"):
            seen += [step := env.step(action), env.board()]
            if step[2]:
                break
        return seen

    env = make(game)
    first = play(env)
    assert play(env) == first
    assert play(make(game)) == first


def test_a_game_is_won_by_its_rules() -> None:
    env = make("TowerOfHanoi-v0")
    text, _ = env.reset(seed=1)
    assert "A: [3, 2, 1]" in text
    assert "disk" in env.env_spec.instruction.lower()
    *before, last = [env.step(move) for move in HANOI]
    assert all(step[1:3] == (0.0, False) and step[4]["effective"] for step in before)
    assert last[1:3] == (1.0, True)
    assert last[4]["success"]
    with pytest.raises(ResetNeeded, match="over"):
        env.step("[A C]")


def test_an_invalid_move_is_answered_by_the_game() -> None:
    env = make("TowerOfHanoi-v0")
    env.reset(seed=1)
    text, _, over, _, info = env.step("up")
    assert not over
    assert not info["effective"]
    assert "invalid move" in text.lower()


def test_a_copy_is_independent() -> None:
    env = make("TowerOfHanoi-v0")
    env.reset(seed=1)
    before = env.render()
    ahead = copy.deepcopy(env)
    step = ahead.step("[A C]")
    assert env.render() == before
    assert env.step("[A C]") == step


def test_budgets_are_those_of_the_game() -> None:
    short, long = (envs.spec("TextArena", {"id": game}) for game in ("TowerOfHanoi-v0", "TowerOfHanoi-v0-medium"))
    assert (short.max_turns, short.max_actions, short.max_actions_per_turn) == (14, 14, 1)
    assert long.max_turns == 30


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"id": "TowerOfHanoy-v0"}, "did you mean TowerOfHanoi-v0"),
        ({"id": "Chess-v0"}, "is not a game for one player"),
        ({"id": "TwentyQuestions-v0"}, "cannot be made: .*API key"),
        ({"arguments": {"disks": 4}}, "cannot be made: TypeError"),
    ],
)
def test_unusable_settings_are_refused_with_a_sentence(
    settings: dict[str, Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    with pytest.raises(ValidationError, match=sentence):
        envs.settings_model("TextArena").model_validate(settings)


def test_it_plays_in_the_sandbox_of_a_run() -> None:
    pool = EnvironmentPool("TextArena", {"id": "TowerOfHanoi-v0"}, step_timeout=60, start_timeout=300)
    try:
        (started,) = pool.start([(4, 5)])
        assert isinstance(started, TextEnv), started
        assert [started.step(move)[4]["success"] for move in HANOI] == [False] * 6 + [True]
    finally:
        pool.close()
