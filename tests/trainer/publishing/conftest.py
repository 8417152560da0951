"""A recorded run with a checkpoint, and a stand-in for the Hub."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from tests.trainer import hub_server
from tests.webapp import recorded_journal as recorded
from trainer.config.files import load_preset, with_overrides
from trainer.config.run import RunConfig
from trainer.journal.protocol import CHECKPOINT_STATE, LEARNER_STATE, checkpoint_path
from trainer.journal.writer import Journal
from trainer.paths import POCKET_CHECKPOINT

CHANGES = ["rollout.groups=2", "rollout.group_size=3", "iterations=4", "seed=3"]


@pytest.fixture(scope="session")
def config() -> RunConfig:
    return with_overrides(load_preset("sokoban-pocket"), CHANGES)


@pytest.fixture(scope="session")
def recorded_run(config: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Interrupted after three iterations, and resumed after the second, whose weights are in its checkpoint."""
    folder = tmp_path_factory.mktemp("recorded") / "run"
    log = Journal(folder)
    log.write(recorded.started(config))
    log.write(recorded.evaluated(0, 0.2))
    for number in (1, 2, 3):
        for event in recorded.iteration(config, number, 0.5):
            log.write(event)
        if number == 2:
            log.write(recorded.evaluated(2, 0.5))
    log.write(recorded.evaluated(3, 0.99))
    resumed = recorded.started(config, attempt=2, from_iteration=2)
    log.write(resumed.model_copy(update={"evaluated_iteration": 2, "versions": {"torch": "2", "commit": "c0ffee"}}))
    for event in recorded.iteration(config, 3, 0.9):
        log.write(event)
    log.close()
    checkpoint = folder / checkpoint_path(2)
    shutil.copytree(POCKET_CHECKPOINT, checkpoint)
    import torch

    torch.save({}, checkpoint / LEARNER_STATE)
    (checkpoint / CHECKPOINT_STATE).write_text(json.dumps({"iteration": 2, "files": {}}))
    return folder


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[hub_server.Hub]:
    """A server in place of the Hub for this process, which takes large files by Git LFS."""
    with hub_server.running() as running:
        hub_server.use(running.url, monkeypatch)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
        monkeypatch.setenv("HF_TOKEN", hub_server.TOKEN)
        yield running
