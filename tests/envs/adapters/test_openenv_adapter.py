"""Environments of OpenEnv servers: played over real connections, and every way in which a server can fail."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gymnasium.error import ResetNeeded
from pydantic import ValidationError

import envs
from envs.adapters import openenv_adapter
from envs.base import TextEnv
from envs.pool import EnvironmentPool
from envs.sandbox.client import EnvironmentFailure
from tests.envs.adapters.openenv_server import ABOUT, TROUBLE, GuessServer, serving
from tests.patience import SECONDS

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _no_description_of_an_earlier_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openenv_adapter, "_descriptions", {})


@pytest.fixture
def game() -> GuessServer:
    return GuessServer()


@pytest.fixture
def address(game: GuessServer) -> Iterator[str]:
    with serving(game) as address:
        yield address


def make(address: str, **settings: Any) -> TextEnv:
    return envs.make("OpenEnv", {"id": address, "timeout": 5, **settings})


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def guessed(env: TextEnv) -> list[tuple[Any, ...]]:
    """The steps of an episode that tries all numbers."""
    steps = []
    for number in range(10):
        steps.append(env.step(str(number)))
        if steps[-1][2]:
            break
    return steps


def test_an_episode_is_played_at_the_server(address: str) -> None:
    env = make(address)
    text, info = env.reset(seed=2**62)
    assert text == "Guess a number below 10."
    assert not info["success"]
    *before, last = guessed(env)
    assert all(step[:3] == ("Higher.", 0.0, False) for step in before)
    assert last[:3] == ("Right.", 1.0, True)
    assert last[4]["success"]
    assert env.board().text == "Right."
    with pytest.raises(ResetNeeded, match="over"):
        env.step("1")
    again = make(address)
    assert again.reset(seed=2**62, options={"dynamics_seed": 5})[0] == text
    assert guessed(again) == [*before, last], "the seed chooses the start"


def test_rules_and_form_of_an_action_are_those_of_the_server(address: str) -> None:
    env = make(address)
    assert env.env_spec == envs.spec("OpenEnv", {"id": address}), "nothing is fetched before the first reset"
    env.reset(seed=1)
    assert env.env_spec.title == "Guess (OpenEnv)"
    assert env.env_spec.instruction == f"{ABOUT}\nAn action is the value of number: a whole number. Your guess."
    assert (env.env_spec.max_turns, env.env_spec.max_actions_per_turn) == (20, 1)


def test_arguments_reach_its_reset(address: str) -> None:
    env = make(address, arguments={"top": 1})
    assert env.reset(seed=7)[0] == "Guess a number below 1."
    assert env.step("0")[2]


def test_actions_may_be_json_objects(address: str, game: GuessServer) -> None:
    env = make(address)
    env.reset(seed=1)
    env.step('{"number": 99}')
    assert game.steps[-1] == {"number": 99}


@pytest.mark.parametrize("action", ["seven", "7.5", "", '{"guess": 7}'])
def test_an_action_that_cannot_be_read_has_no_effect_and_names_what_is_expected(address: str, action: str) -> None:
    env = make(address)
    env.reset(seed=1)
    text, reward, over, _, info = env.step(action)
    assert text == "Guess a number below 10.\nThe action had no effect: number is a whole number. Your guess."
    assert (reward, over, info["valid"], info["effective"]) == (0.0, False, False, False)
    assert env.step("99")[0] == "Lower."


def test_an_action_that_the_server_refuses_has_no_effect_and_gives_the_reason(address: str) -> None:
    env = make(address)
    env.reset(seed=1)
    text, _, over, _, info = env.step('{"number": "7"}')
    assert text.endswith("The action had no effect: the server does not accept it: number: Field required")
    assert (over, info["valid"]) == (False, False)
    assert env.step("99")[4]["valid"]


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (-1, "failed at step: the board is gone"),
        (-2, "did not answer step within 1 s"),
        (-3, r"closed the connection at step: received 1011 .*out of memory"),
        (-4, "breaks the OpenEnv protocol: it answered step with something that is no JSON object"),
        (-5, "breaks the OpenEnv protocol: it answered step with state instead of an observation"),
        (-6, "breaks the OpenEnv protocol: it answered step with an observation without its fields"),
        (-7, "breaks the OpenEnv protocol: it answered step with the reward much, which is not a number"),
        (-8, "breaks the OpenEnv protocol: it answered step with something that is no JSON object"),
    ],
    ids=TROUBLE.values(),
)
def test_a_server_in_trouble_fails_the_step_with_one_sentence(address: str, number: int, sentence: str) -> None:
    env = make(address, timeout=1)
    env.reset(seed=1)
    with pytest.raises(openenv_adapter.OpenEnvError, match=sentence) as failure:
        env.step(str(number))
    assert "\n" not in str(failure.value)
    assert address in str(failure.value)
    assert env.reset(seed=1)[0], "the next episode has a connection of its own"


def test_a_server_that_is_away_fails_the_reset_and_not_the_environment() -> None:
    port = free_port()
    env = make(f"http://127.0.0.1:{port}")
    env.prepare()
    with pytest.raises(openenv_adapter.OpenEnvError, match="cannot be reached: Connection refused"):
        env.reset(seed=1)
    with serving(GuessServer(), port):
        assert env.reset(seed=1)[0] == "Guess a number below 10.", "it is back"


def test_a_server_that_accepts_no_connection_in_time_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        env = make(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.3)
        started = time.monotonic()
        with pytest.raises(openenv_adapter.OpenEnvError, match=r"did not accept a connection within 0.3 s"):
            env.reset(seed=1)
        assert time.monotonic() - started < SECONDS


def test_actions_that_the_server_does_not_describe_in_time_fail_the_reset() -> None:
    game = GuessServer(delay=4)
    with serving(game) as address:
        env = make(address, timeout=1)
        env.prepare()
        with pytest.raises(openenv_adapter.OpenEnvError, match="did not describe its actions within 1 s"):
            env.reset(seed=1)
        game.delay = 0
        env.reset(seed=1)
        assert "number" in env.env_spec.instruction, "the next episode asks again"


def test_another_server_is_not_taken_for_one_of_openenv(address: str) -> None:
    with pytest.raises(
        openenv_adapter.OpenEnvError, match=r"is no OpenEnv server: it refused a WebSocket at /ws \(HTTP"
    ):
        make(f"{address}/games").reset(seed=1)


def test_a_server_without_a_free_session_names_the_setting() -> None:
    with serving(GuessServer(max_sessions=1)) as address:
        first, second = make(address), make(address)
        first.reset(seed=1)
        with pytest.raises(openenv_adapter.OpenEnvError, match=r"no free session: .*max_concurrent_envs"):
            second.reset(seed=1)
        guessed(first)
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:  # the server notices the end of the first session by itself
            try:
                second.reset(seed=1)
                return
            except openenv_adapter.OpenEnvError:
                time.sleep(0.05)
    pytest.fail("an episode that is over keeps its session")


MOVES = {
    "properties": {
        "side": {"$ref": "#/$defs/Side"},
        "speed": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "loud": {"type": "boolean", "default": False},
    },
    "required": ["side", "speed"],
    "$defs": {"Side": {"type": "string", "enum": ["left", "right"]}},
}


@pytest.mark.parametrize(
    ("field", "action", "sent"),
    [
        ("", '{"side": "left", "speed": 2}', {"side": "left", "speed": 2}),
        ("side", "left", {"side": "left"}),
        ("speed", "2.5", {"speed": 2.5}),
        ("loud", "Yes", {"loud": True}),
    ],
)
def test_actions_with_several_fields(field: str, action: str, sent: dict[str, Any]) -> None:
    game = GuessServer(actions=MOVES)
    with serving(game) as address:
        env = make(address, action_field=field)
        env.reset(seed=1)
        env.step(action)
    assert game.steps == [sent]


def test_the_form_of_an_action_with_several_fields_is_explained() -> None:
    with serving(GuessServer(actions=MOVES)) as address:
        env = make(address)
        env.reset(seed=1)
        example = '{"side": "string", "speed": "number"}'
        assert env.env_spec.instruction.splitlines()[1:] == [
            f"An action is a JSON object such as {example}.",
            "side: one of left, right.",
            "speed: a number.",
            "loud: true or false.",
        ]
        assert env.step("left")[0].endswith(f"an action is a JSON object such as {example}")
        for number in ("nan", "fast"):
            assert not make_and_step(address, "speed", number)["valid"]


def make_and_step(address: str, field: str, action: str) -> dict[str, Any]:
    env = make(address, action_field=field)
    env.reset(seed=1)
    return env.step(action)[4]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"action_field": "move"}, "its actions have no field 'move': choose among number"),
        ({"observation_field": "board"}, "have no field 'board': choose among message"),
    ],
)
def test_fields_that_the_server_does_not_have_are_refused_with_its_own(
    address: str, settings: dict[str, str], sentence: str
) -> None:
    with pytest.raises(openenv_adapter.OpenEnvError, match=sentence):
        make(address, **settings).reset(seed=1)


def test_observations_are_shown_by_field() -> None:
    read = openenv_adapter._shown
    assert read({"message": "Hi", "metadata": {"a": 1}, "board": None, "moves": []}) == {"message": "Hi"}
    assert openenv_adapter._text({"row": [1, 2]}) == '{"row": [1, 2]}'
    assert len(openenv_adapter._cut("x" * 30_000)) == openenv_adapter.MAX_TEXT


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"id": "localhost:8000"}, "is not the address of a server: write it as in http://localhost:8000"),
        ({"id": "ftp://games"}, "is not the address of a server"),
        ({"id": "http://games:port"}, "is not the address of a server"),
        ({"id": "http://games/?key=1"}, "is not the address of a server"),
        ({"id": "http://me:secret@games"}, "no user name and password"),
        ({"id": "http://games", "arguments": {"seed": 3}}, "seed is set for each episode"),
        ({"id": "http://games", "timeout": 0}, "greater than or equal to 0.1"),
    ],
)
def test_unusable_settings_are_refused_with_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        envs.settings_model("OpenEnv").model_validate(settings)


def test_an_empty_address_is_refused_with_an_example() -> None:
    with pytest.raises(ValueError, match="OpenEnv has no default variant: set id in its settings to the address of an"):
        envs.make("OpenEnv")


def test_servers_of_the_operator_are_its_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    assert envs.variants("OpenEnv") == {}
    monkeypatch.setenv(openenv_adapter.SERVERS, "http://chess:8000, https://shop.example/env/")
    assert list(envs.variants("OpenEnv")) == ["http://chess:8000", "https://shop.example/env"]


def test_a_lost_server_costs_a_run_the_trajectory_alone(address: str) -> None:
    pool = EnvironmentPool("OpenEnv", {"id": address, "timeout": 5}, step_timeout=60, start_timeout=300)
    try:
        first, second = pool.start([(4, 5), (4, 6)])
        assert isinstance(first, TextEnv), first
        assert isinstance(second, TextEnv), second
        assert first.env_spec.title == "Guess (OpenEnv)"
        with pytest.raises(EnvironmentFailure, match=r"OpenEnvError: the OpenEnv server .* closed the connection"):
            first.step("-3")
        assert guessed(second)[-1][4]["success"]
    finally:
        pool.close()


def test_it_plays_at_a_server_of_openenv_core() -> None:
    pytest.importorskip("openenv", reason="openenv-core is not installed: pip install openenv-core")
    port = free_port()
    server = subprocess.Popen([sys.executable, "-m", "tests.envs.adapters.openenv_server", str(port)], cwd=ROOT)
    try:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until and server.poll() is None:
            with socket.socket() as attempt:
                if attempt.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.2)
        env = make(f"http://127.0.0.1:{port}")
        env.reset(seed=2**62)
        assert env.env_spec.instruction == f"{ABOUT}\nAn action is the value of number: a whole number. Your guess."
        assert env.step('{"number": "x"}')[0].endswith("unable to parse string as an integer")
        other = make(f"http://127.0.0.1:{port}")
        other.reset(seed=1)
        with pytest.raises(openenv_adapter.OpenEnvError, match=r"no free session: .*Server at capacity: 2/2"):
            make(f"http://127.0.0.1:{port}").reset(seed=1)
        with pytest.raises(openenv_adapter.OpenEnvError, match="failed at step: the board is gone"):
            other.step("-1")
        assert guessed(env)[-1][4]["success"]
    finally:
        server.terminate()
        server.wait(SECONDS)
