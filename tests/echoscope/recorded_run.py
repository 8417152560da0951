"""A recorded run in a folder, for tests of the notebooks' player."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.webapp import recorded_journal as recorded
from trainer.config.files import load_preset, with_overrides
from trainer.journal.writer import Journal


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded") / "run"
    config = with_overrides(load_preset("sokoban-pocket"), ["rollout.groups=2", "rollout.group_size=3", "iterations=1"])
    log = Journal(folder)
    log.write(recorded.started(config))
    for event in recorded.iteration(config, 1, 0.3):
        log.write(event)
    log.close()
    return folder
