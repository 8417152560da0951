"""The example package is trained in, demonstrated and journaled like any other environment."""

import json

import pytest

from tests.envs.plugins import importable, install_example
from tests.trainer import tiny
from tests.trainer.loops.test_train import events, run
from trainer.cli import main


@pytest.fixture(autouse=True, scope="module")
def _key_door(tmp_path_factory):
    with importable(install_example(tmp_path_factory.mktemp("pip"))):
        yield


def always(*actions):
    def parse(response, *, think, max_actions):
        from trainer.rollout.response_parser import parse_response

        return parse_response(tiny.answer(*actions), think=True, max_actions=max_actions)

    return parse


def test_it_is_trained_for_an_iteration_and_its_boards_are_in_the_journal(pocket_folder, tmp_path, monkeypatch):
    monkeypatch.setattr("trainer.rollout.episode.parse_response", always("Up", "Right"))
    config = tiny.config(pocket_folder, iterations=1, environment={"name": "KeyDoor", "settings": {"size": 7}})
    assert run(config, tmp_path).reason == "completed"
    recorded = events(tmp_path)
    started = next(event for event in recorded if event.type == "group_started")
    assert started.board.legend["K"].tone == "piece"
    assert len(started.board.rows) == 7
    assert "Lava is deadly." in started.prompt
    turns = [event for event in recorded if event.type == "turn"]
    assert any(action.status == "executed" and action.board.legend for turn in turns for action in turn.actions)
    assert not any(event.error for event in recorded if event.type == "trajectory_finished")


def test_its_solver_demonstrates_several_actions_per_turn(tmp_path):
    out = tmp_path / "out.jsonl"
    assert main.main(["demonstrate", "--environment", "KeyDoor", "--count", "20", "--out", str(out)]) == 0
    for line in out.read_text().splitlines():
        record = json.loads(line)
        assert record["success"]
        assert "actions to go. Next: " in record["turns"][0]["thought"]
        assert len(record["turns"]) == -(-sum(len(turn["actions"]) for turn in record["turns"]) // 5)
