"""Checkpoints: atomic, pruned, with progress renewed without rewriting weights."""

import json
import os
from pathlib import Path

import pytest
import torch

from tests.trainer import tiny
from trainer.config.run import PolicyConfig
from trainer.journal.disk_space import is_full
from trainer.journal.protocol import CHECKPOINTS_FOLDER
from trainer.learner.learner import Learner
from trainer.loops.stages import checkpoints
from trainer.loops.stages.checkpoints import Progress
from trainer.policy.load import load


@pytest.fixture
def learner(pocket_folder, policy):
    return Learner(tiny.config(pocket_folder, algorithm={"estimator": "gae"}), policy)


def test_saved_state_is_restored(tmp_path, learner):
    progress = Progress(iteration=3, evaluated=2, tokens=11, seconds=0.1 + 0.2, echo_trap={"a": [1.5]})
    folder = checkpoints.save(tmp_path, learner, progress)
    assert checkpoints.load_progress(tmp_path, 3) == progress
    again = load(checkpoints.get_path(tmp_path, 3), PolicyConfig())
    for name, weight in learner.policy.model.state_dict().items():
        assert torch.equal(weight, again.model.state_dict()[name])
    other = Learner(learner.config, again)
    checkpoints.load_learner(tmp_path, 3, other)
    assert checkpoints.size(folder) == sum(file.stat().st_size for file in folder.iterdir())


def test_an_incomplete_folder_is_not_a_checkpoint(tmp_path, learner):
    checkpoints.save(tmp_path, learner, Progress(iteration=1))
    checkpoints.save(tmp_path, learner, Progress(iteration=2))
    (checkpoints.get_path(tmp_path, 2) / "state.json").unlink()
    (tmp_path / CHECKPOINTS_FOLDER / ".000003.partial").mkdir()
    (tmp_path / CHECKPOINTS_FOLDER / "notes").mkdir()
    assert checkpoints.checkpoint_iterations(tmp_path) == [1]
    assert checkpoints.checkpoint_iterations(tmp_path / "nothing") == []


def test_saving_an_iteration_again_updates_progress_and_keeps_weights(tmp_path, learner):
    folder = checkpoints.save(tmp_path, learner, Progress(iteration=1, evaluated=0))
    before = {file.name: (file.stat().st_ino, file.read_bytes()) for file in folder.iterdir()}
    checkpoints.save(tmp_path, learner, Progress(iteration=1, evaluated=1))
    after = {file.name: (file.stat().st_ino, file.read_bytes()) for file in folder.iterdir()}
    assert before.keys() == after.keys()
    assert [name for name in before if before[name] != after[name]] == ["state.json"]
    assert checkpoints.load_progress(tmp_path, 1).evaluated == 1


def test_only_the_newest_are_kept(tmp_path, learner):
    for iteration in (1, 2, 3, 10):
        checkpoints.save(tmp_path, learner, Progress(iteration=iteration))
    assert checkpoints.prune(tmp_path, 2) == [1, 2]
    assert checkpoints.checkpoint_iterations(tmp_path) == [3, 10]
    assert checkpoints.prune(tmp_path, 2) == []


def test_partial_writes_of_a_killed_process_are_removed(tmp_path, learner):
    left = tmp_path / CHECKPOINTS_FOLDER / ".000007.partial"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_bytes(b"half")
    checkpoints.save(tmp_path, learner, Progress(iteration=8))
    assert not left.exists()


def test_the_state_contains_no_pickled_code(tmp_path, learner):
    folder = checkpoints.save(tmp_path, learner, Progress(iteration=1))
    assert torch.load(folder / "learner.pt", weights_only=True).keys() == learner.state().keys()
    assert json.loads((folder / "state.json").read_text())["iteration"] == 1
    assert not list(folder.glob("*.bin"))


def damage_of(kind, folder):
    """Damage as a failing disk or a power cut leaves it."""
    weights, learner, state = folder / "model.safetensors", folder / "learner.pt", folder / "state.json"
    match kind:
        case "truncated optimizer":
            learner.write_bytes(learner.read_bytes()[:1000])
        case "one bit of the weights":
            data = bytearray(weights.read_bytes())
            data[len(data) // 2] ^= 1
            weights.write_bytes(data)
        case "missing tokenizer":
            (folder / "tokenizer.json").unlink()
        case "empty state":
            state.write_text("")
        case "state of another program":
            state.write_text('{"files": {}, "step": 3}')


DAMAGES = (
    "truncated optimizer",
    "one bit of the weights",
    "missing tokenizer",
    "empty state",
    "state of another program",
)


@pytest.mark.parametrize("kind", DAMAGES)
def test_damaged_checkpoint_is_passed_over(tmp_path, learner, kind):
    for iteration in (1, 2):
        checkpoints.save(tmp_path, learner, Progress(iteration=iteration))
    assert checkpoints.newest_sound(tmp_path) == (2, {})
    damage_of(kind, checkpoints.get_path(tmp_path, 2))
    newest, damaged = checkpoints.newest_sound(tmp_path)
    assert newest == 1
    assert list(damaged) == [2]
    assert "checkpoint 2" in damaged[2]
    assert checkpoints.resolve(str(tmp_path)) == str(checkpoints.get_path(tmp_path, 1))
    aside = checkpoints.set_aside(tmp_path, 2)
    assert aside.is_dir()
    assert checkpoints.checkpoint_iterations(tmp_path) == [1]


def test_renewed_progress_keeps_the_checksums(tmp_path, learner):
    checkpoints.save(tmp_path, learner, Progress(iteration=1))
    checkpoints.update_progress(tmp_path, Progress(iteration=1, rewinds=1))
    assert checkpoints.damage(tmp_path, 1) == ""
    damage_of("one bit of the weights", checkpoints.get_path(tmp_path, 1))
    assert "model.safetensors" in checkpoints.damage(tmp_path, 1)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_is_the_reason_why_the_optimisers_cannot_be_saved(monkeypatch, learner, tmp_path):
    original = Path.open

    def redirected(path: Path, mode: str = "r", *args, **kwargs):
        return original(Path("/dev/full") if path.name == checkpoints.LEARNER_STATE else path, mode, *args, **kwargs)

    monkeypatch.setattr(Path, "open", redirected)
    with pytest.raises((OSError, RuntimeError)) as error:
        checkpoints.save(tmp_path, learner, Progress(iteration=3))
    assert is_full(error.value)
    assert checkpoints.checkpoint_iterations(tmp_path) == [], "what is incomplete has no name"
