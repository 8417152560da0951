"""Branches that a hosted model plays, against a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.trainer import tiny
from tests.trainer.branching.recordings import attempts, play_on
from tests.trainer.branching.recordings import record as record_pocket
from tests.trainer.hosted_server import Reply, Server, completion, refusal
from trainer import timeouts
from trainer.branching.hosted_player import EndpointError
from trainer.branching.player import BranchPlayer, Weights
from trainer.branching.policies import load_player
from trainer.cli.main import main
from trainer.journal.events import TrajectoryFinished, Turn
from trainer.loops import run_factory
from trainer.loops.recorded_attempts import RecordingError
from trainer.rollout.positions import PositionError

CONTINUED = {"continue_final_message": True}


def reply(body: dict[str, Any]) -> Reply:
    """Go up after three messages, and left later; a response continues what it begins with."""
    begun = body["messages"][-1]["content"] if body["messages"][-1]["role"] == "assistant" else "<think>"
    action = "Up" if len(body["messages"]) < 4 else "Left"
    whole = f"<think>go</think><answer>{action}</answer>"
    if "</think>" in begun:
        whole = f"{begun}{action}</answer>"
    return completion(whole.removeprefix(begun) if body.get("continue_final_message") else whole, prompt=50, written=9)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(timeouts.HOSTED_WAIT.variable, "0.01")


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(reply).running() as running:
        yield running


def record(server: Server, folder: Path, **hosted: Any) -> Path:
    """An evaluation of the hosted model with one attempt of three turns."""
    own = {"url": server.url, "model": "m", "price_per_million": [1.0, 2.0]}
    config = tiny.config(
        "pocket",
        kind="evaluate",
        environment={"name": "FrozenLake", "settings": {"slippery": True}},
        rollout={"max_turns": 3, "max_actions_per_turn": 1, "max_actions": 3},
        evaluation={"prompts": 1, "temperature": 0.7},
        hosted=own | hosted,
    )
    assert run_factory.run(config, folder, folder / "cache").reason == "completed"
    server.bodies.clear()
    return folder


def load(folder: Path) -> BranchPlayer:
    return load_player(Weights.newest(folder))


@pytest.mark.parametrize("extra", [{}, CONTINUED], ids=["whole responses", "continued messages"])
def test_the_endpoint_gets_the_recorded_dialogue_and_plays_on(
    server: Server, tmp_path: Path, extra: dict[str, Any]
) -> None:
    name = attempts(record(server, tmp_path, extra_body=extra))[0]
    player = load(tmp_path)
    recorded = player.starting_points(tmp_path, name).attempt
    asked = play_on(player, trajectory=name, turn=1, samples=2)
    first = [body for body in server.bodies if len(body["messages"]) == (5 if extra else 4)]
    assert len(first) == 2
    assert [message["role"] for message in first[0]["messages"][:4]] == ["system", "user", "assistant", "user"]
    assert first[0]["messages"][2]["content"] == ("<think>" if extra else "") + recorded.turns[0].response
    assert first[0]["messages"][3]["content"] == recorded.turns[1].state
    assert {body["temperature"] for body in first} == {0.7}
    assert len({body["seed"] for body in first}) == 2
    for branch in range(2):
        turns = asked.events(Turn, branch)
        assert turns[0].turn == 1
        assert turns[0].response == recorded.turns[1].response
        assert len(asked.events(TrajectoryFinished, branch)) == 1
    player.close()


def test_answers_and_states_are_changed_and_thoughts_where_messages_are_continued(
    server: Server, tmp_path: Path
) -> None:
    name = attempts(record(server, tmp_path / "whole"))[0]
    player = load(tmp_path / "whole")
    asked = play_on(player, trajectory=name, turn=0, samples=1, change={"answer": "Right"})
    assert [action.name for action in asked.events(Turn)[0].actions] == ["Right"]
    assert server.bodies[0]["messages"][2]["content"] == "<think>go</think><answer>Right</answer>"
    server.bodies.clear()
    play_on(player, trajectory=name, turn=0, samples=1, change={"state": "The lake is gone."})
    assert server.bodies[0]["messages"][1]["content"].endswith("The lake is gone.")
    with pytest.raises(PositionError, match="if the run sets continue_final_message=true"):
        play_on(player, trajectory=name, turn=0, samples=1, change={"thought": "stay"})
    player.close()

    name = attempts(record(server, tmp_path / "continued", extra_body=CONTINUED))[0]
    player = load(tmp_path / "continued")
    asked = play_on(player, trajectory=name, turn=0, samples=1, change={"thought": "stay"})
    assert server.bodies[0]["messages"][-1] == {"role": "assistant", "content": "<think>stay</think><answer>"}
    assert asked.events(Turn)[0].thought == "stay"
    assert [action.name for action in asked.events(Turn)[0].actions] == ["Up"]
    player.close()


def test_a_budget_that_is_spent_and_a_refusal_are_sentences(server: Server, tmp_path: Path) -> None:
    name = attempts(record(server, tmp_path, max_cost=0.004))[0]
    player = load(tmp_path)
    with pytest.raises(EndpointError, match=r"max_cost"):
        play_on(player, trajectory=name, turn=0, samples=64)
    player.close()
    server.answer = lambda body: refusal(401, "bad key")
    player = load(tmp_path)
    with pytest.raises(ValueError, match="bad key"):
        play_on(player, trajectory=name, turn=0, samples=1)
    player.close()


def test_weights_of_a_run_without_servers_are_not_given_to_any(tmp_path: Path) -> None:
    folder = record_pocket(tmp_path, prompts=1)
    with pytest.raises(RecordingError, match="has no vLLM servers"):
        load_player(Weights.newest(folder), servers=True)


def test_a_hosted_model_has_no_checkpoints(server: Server, tmp_path: Path) -> None:
    record(server, tmp_path)
    with pytest.raises(RecordingError, match="has no checkpoints"):
        load_player(Weights(tmp_path, 3))


def test_the_command_plays_on_with_the_model_of_another_run(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = attempts(record(server, tmp_path / "one"))[0]
    record(server, tmp_path / "other", model="n")
    command = ["branch", str(tmp_path / "one"), "--trajectory", name, "--turn", "2", "--samples", "2"]
    assert main([*command, "--from", str(tmp_path / "other")]) == 0
    written = capsys.readouterr()
    assert "the model n at 127.0.0.1" in written.err
    assert "of 2" in written.out
    assert {body["model"] for body in server.bodies} == {"n"}
