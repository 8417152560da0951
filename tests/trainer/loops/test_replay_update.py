"""Replay of a recorded update reproduces the metrics that the run recorded."""

from __future__ import annotations

import pytest

from tests.trainer import tiny
from tests.trainer.loops.test_train import run
from trainer.cli.main import BAD_CONFIGURATION, COMPLETED, main
from trainer.config.rollout import SYSTEM
from trainer.journal.protocol import JOURNAL_FILE
from trainer.loops.replay_update import ReplayError, replay_update
from trainer.loops.stages import checkpoints

SETTINGS = {
    "iterations": 3,
    "rollout": {"group_size": 4},
    "algorithm": {
        "estimator": "gae",
        "group_filter": "std",
        "group_filter_keep": 0.5,
        "kl_coef": 0.01,
        "drop_zero_std": False,
    },
    "evaluation": {"prompts": 0},
    "checkpoint": {"every": 1, "keep": 2},
}


@pytest.fixture(scope="module")
def finished(pocket_folder, tmp_path_factory):
    """A run with a critic and a filter that keeps the checkpoints of iterations 2 and 3."""
    folder = tmp_path_factory.mktemp("replayed")
    run(tiny.config(pocket_folder, **SETTINGS), folder)
    return folder


def check_same(replay) -> None:
    assert replay.replayed.keys() <= replay.recorded.keys()
    for name in ("policy/loss", "policy/grad_norm", "policy/kl_to_initial", "policy/learning_rate", "update/steps"):
        assert replay.replayed[name] == pytest.approx(replay.recorded[name], rel=1e-2, abs=1e-3), name
    for name in {"value/loss", "value/grad_norm"} & replay.recorded.keys():
        assert replay.replayed[name] == pytest.approx(replay.recorded[name], rel=1e-2, abs=1e-3), name


@pytest.mark.parametrize("iteration", [1, 3])
def test_a_replayed_update_gives_the_recorded_metrics(finished, iteration) -> None:
    before = sorted(path.stat().st_mtime_ns for path in finished.rglob("*"))
    check_same(replay_update(finished, iteration))
    assert sorted(path.stat().st_mtime_ns for path in finished.rglob("*")) == before, "nothing is written"


def test_a_windowed_prompt_is_rebuilt_and_adapters_are_loaded(pocket_folder, tmp_path) -> None:
    changes = {
        "rollout": {"group_size": 4, "max_turns": 3, "context_turns": 1, "system": "Mind the boxes."},
        "lora": {"rank": 2, "alpha": 4},
        "algorithm": {"estimator": "reinforce_plus_plus", "drop_zero_std": False},
    }
    run(tiny.config(pocket_folder, **SETTINGS | changes | {"iterations": 2}), tmp_path)
    same = replay_update(tmp_path, 2)
    check_same(same)
    journal = tmp_path / JOURNAL_FILE
    journal.write_text(journal.read_text().replace("Mind the boxes.", SYSTEM))
    other = replay_update(tmp_path, 2)
    assert other.replayed["mismatch/k3"] > 100 * same.replayed["mismatch/k3"], "the run had its own system message"


def test_the_command_prints_recorded_and_replayed_metrics(finished, capsys, monkeypatch) -> None:
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    assert main(["replay-update", str(finished), "3"]) == COMPLETED
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["metric", "recorded", "replayed", "difference"]
    assert any(line.startswith("policy/loss ") for line in lines)


def test_an_iteration_without_its_checkpoint_names_those_that_can_be_replayed(finished, capsys, monkeypatch) -> None:
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    assert checkpoints.checkpoint_iterations(finished) == [2, 3]
    with pytest.raises(ReplayError, match="only 1, 3, 4 can be replayed"):
        replay_update(finished, 2)
    assert main(["replay-update", str(finished), "2"]) == BAD_CONFIGURATION
    assert "no checkpoint is kept" in capsys.readouterr().err
    with pytest.raises(ReplayError, match="no finished update of iteration 4"):
        replay_update(finished, 4)


def test_a_run_without_recorded_tokens_names_the_setting_to_enable(pocket_folder, tmp_path) -> None:
    run(tiny.config(pocket_folder, **SETTINGS | {"iterations": 1, "journal": {"tokens": "none"}}), tmp_path)
    with pytest.raises(ReplayError, match=r"journal\.tokens=kept"):
        replay_update(tmp_path, 1)
    with pytest.raises(ReplayError, match="holds no journal"):
        replay_update(tmp_path / "nowhere", 1)
