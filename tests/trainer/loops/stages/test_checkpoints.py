"""Checkpoints: atomic, pruned, with progress renewed without rewriting weights."""

import json

import pytest
import torch

from tests.trainer import tiny
from trainer.config.run import PolicyConfig
from trainer.journal.protocol import CHECKPOINTS_FOLDER
from trainer.learner.learner import Learner
from trainer.loops.stages import checkpoints
from trainer.loops.stages.checkpoints import Progress


@pytest.fixture
def learner(pocket_folder, policy):
    return Learner(tiny.config(pocket_folder, algorithm={"estimator": "gae"}), policy)


def test_saved_state_is_restored(tmp_path, learner):
    progress = Progress(iteration=3, evaluated=2, tokens=11, seconds=0.1 + 0.2, echo_trap={"a": [1.5]})
    folder = checkpoints.save(tmp_path, learner, progress)
    assert checkpoints.load_progress(tmp_path, 3) == progress
    again = checkpoints.load_policy(tmp_path, 3, PolicyConfig())
    for name, weight in learner.policy.model.state_dict().items():
        assert torch.equal(weight, again.model.state_dict()[name])
    other = Learner(learner.config, again)
    checkpoints.load_learner(tmp_path, 3, other)
    assert checkpoints.size(folder) == sum(file.stat().st_size for file in folder.iterdir())


def test_an_incomplete_folder_is_not_a_checkpoint(tmp_path, learner):
    checkpoints.save(tmp_path, learner, Progress(iteration=1))
    checkpoints.save(tmp_path, learner, Progress(iteration=2))
    (checkpoints.path_of(tmp_path, 2) / "state.json").unlink()
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
