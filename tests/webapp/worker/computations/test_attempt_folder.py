"""Folder of a computation: the journal's lines about an attempt, and the model of the nearest checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.files.storage import Storage

from tests.webapp.runs.test_object_storage import another_machine, storage
from trainer.journal import reader
from trainer.journal.protocol import JOURNAL_FILE
from trainer.loops.compute_tokens import compute_tokens
from trainer.memory import available
from webapp.runs import object_storage
from webapp.runs.models import Run
from webapp.runs.untrusted_folder import UntrustedFolder
from webapp.trajectories.models import Trajectory
from webapp.worker.computations import attempt_folder
from webapp.worker.computations.attempt_folder import Weights, find_weights, prepare
from webapp.worker.computations.job_ends import ComputationFailed

__all__ = ["storage"]
pytestmark = pytest.mark.django_db
LAST = Weights(2, "checkpoints/000002", "checkpoints/000002")


@pytest.fixture
def key(finished: Run) -> str:
    return Trajectory.objects.filter(run=finished, split="train", iteration=2).values_list("key", flat=True)[0]


@pytest.fixture
def inside(tmp_path: Path) -> UntrustedFolder:
    (tmp_path / "job").mkdir()
    return UntrustedFolder(tmp_path / "job")


def nothing() -> None:
    pass


def test_the_folder_suffices_for_the_command(finished: Run, trained: Path, key: str, inside: UntrustedFolder) -> None:
    assert [find_weights(finished, wanted) for wanted in (1, 2, 7)] == [LAST] * 3
    prepare(finished, key, LAST, inside, nothing)
    events = list(reader.read(inside.path / JOURNAL_FILE))
    assert len(events) < sum(1 for _ in reader.read(trained / JOURNAL_FILE)) / 2
    names = set(inside.list_files().files)
    assert {"checkpoints/000002/model.safetensors", "checkpoints/000002/state.json"} < names
    assert not any("learner" in name for name in names), "what only training needs is left out"
    assert compute_tokens(inside.path, key, checkpoint=2) == compute_tokens(trained, key, checkpoint=2)


def test_files_are_fetched_from_storage(
    finished: Run, trained: Path, key: str, inside: UntrustedFolder, storage: Storage
) -> None:
    object_storage.copy(finished.folder, storage, finished.slug, object_storage.Manifest())
    finished.copy = "of another worker"
    another_machine(finished)
    assert find_weights(finished, 1) == LAST
    prepare(finished, key, LAST, inside, nothing)
    assert compute_tokens(inside.path, key).ids == compute_tokens(trained, key).ids
    object_storage.delete(storage, finished.slug)
    assert find_weights(finished, 1) is None, "another worker may have them"


def test_the_initial_policy_is_named_or_in_the_run(finished: Run, key: str, inside: UntrustedFolder) -> None:
    assert find_weights(finished, 0) == Weights(0)
    prepare(finished, key, Weights(0), inside, nothing)
    assert set(inside.list_files().files) == {JOURNAL_FILE}
    policy = finished.config["policy"]
    finished.config["policy"] = policy | {"model": "run:AbCdEfGh2345@7"}
    copied = ".initial/AbCdEfGh2345/checkpoints/000007"
    assert find_weights(finished, 0) == Weights(0, copied, "checkpoints/000000")
    finished.config |= {"policy": policy | {"model": "smollm2-135m"}, "sft": {"warmup_steps": 5}}
    assert find_weights(finished, 0) == Weights(0, "warmed_up", "warmed_up")


def test_what_does_not_suffice_is_said(
    finished: Run, key: str, inside: UntrustedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = Weights(1, "checkpoints/000001", "checkpoints/000001")
    with pytest.raises(ComputationFailed, match="checkpoints/000001 of this run has been deleted meanwhile"):
        prepare(finished, key, gone, inside, nothing)
    monkeypatch.setattr(attempt_folder, "available_memory", lambda: (500_000_000, 4_000_000_000))
    with pytest.raises(ComputationFailed, match=r"Out of memory: the model needs about 1.0 GB, and 0.5 GB of the"):
        prepare(finished, key, LAST, inside, nothing)
    assert available.available_memory() is not None
    monkeypatch.setattr(attempt_folder, "SPARE_DISK", 10**18)
    with pytest.raises(ComputationFailed, match="GB free for its copy"):
        prepare(finished, key, LAST, inside, nothing)
    monkeypatch.setattr(attempt_folder, "MAX_JOURNAL", 100)
    with pytest.raises(ComputationFailed, match="too many lines"):
        prepare(finished, key, LAST, inside, nothing)
    journal = finished.folder / JOURNAL_FILE
    journal.write_bytes(b'["run_started", "type":"run_started"]\n' + journal.read_bytes())
    with pytest.raises(ComputationFailed, match="a line is not an event"):
        prepare(finished, key, LAST, inside, nothing)
