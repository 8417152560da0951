"""`python -m trainer change`: requests in a run's folder, checked first."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from trainer.cli import main
from trainer.config.run import RunConfig
from trainer.journal.change_requests import read_requests
from trainer.journal.protocol import CHECKPOINT_STATE, CONFIG_FILE, checkpoint_path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / CONFIG_FILE).write_text(yaml.safe_dump(RunConfig().model_dump(mode="json")))
    return tmp_path


def test_a_request_is_left_for_the_trainer(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = ["--set", "optimizer.policy_lr = 5e-5", "--set", "evaluation.every=5"]
    assert main.main(["change", str(folder), *values, "--why", "shaky"]) == 0
    (request,) = read_requests(folder)
    assert request.changes == {"optimizer.policy_lr": "5e-5", "evaluation.every": "5"}
    assert (request.why, bool(request.by)) == ("shaky", True)
    assert "from the next iteration on" in capsys.readouterr().out


def keep_checkpoints(folder: Path, *iterations: int) -> None:
    for iteration in iterations:
        checkpoint = folder / checkpoint_path(iteration)
        checkpoint.mkdir(parents=True)
        (checkpoint / CHECKPOINT_STATE).write_text("{}")


def test_a_rewind_is_left_for_the_trainer(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep_checkpoints(folder, 10, 20)
    assert main.main(["change", str(folder), "--rewind-to", "10"]) == 0
    assert main.main(["change", str(folder), "--rewind-to", "10", "--set", "optimizer.policy_lr=5e-5"]) == 0
    first, second = read_requests(folder)
    assert (first.rewind_to, first.changes) == (10, {})
    assert (second.rewind_to, second.changes) == (10, {"optimizer.policy_lr": "5e-5"})
    assert "back to the checkpoint of iteration 10, with optimizer.policy_lr = 5e-5." in capsys.readouterr().out


def test_a_checkpoint_that_is_not_kept_or_of_an_ended_run_is_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep_checkpoints(folder, 190)
    assert main.main(["change", str(folder), "--rewind-to", "10"]) == 2
    assert "keeps no checkpoint of iteration 10 (kept: 190)" in capsys.readouterr().err
    keep_checkpoints(folder, 200)
    assert main.main(["change", str(folder), "--rewind-to", "190"]) == 2
    assert f"has ended: begin a new one from the checkpoint, with --config {folder}" in capsys.readouterr().err
    assert read_requests(folder) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name the new values"),
        (["--set", "optimizer.policy_lr"], "--set takes section.field=value"),
        (["--set", "rollout.groups=4"], "rollout.groups cannot change while a run trains"),
        (["--set", "optimizer.policy_lr=fast"], "must be a number, not 'fast'"),
    ],
)
def test_impossible_requests_are_errors(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main.main(["change", str(folder), *arguments]) == 2
    assert words in capsys.readouterr().err
    assert read_requests(folder) == []


def test_a_folder_without_a_run_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["change", str(tmp_path), "--set", "evaluation.every=5"]) == 2
    assert "is no run's folder" in capsys.readouterr().err
