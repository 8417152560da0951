"""A run that was really trained, with its files on a worker."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django import Settings

from tests.trainer import tiny
from tests.webapp.conftest import People
from trainer.loops import run_factory
from trainer.paths import POCKET_CHECKPOINT
from webapp.ingest.tailer import JournalTailer
from webapp.runs.models import Run, Worker

SETTINGS = {
    "iterations": 2,
    "rollout": {"group_size": 2, "max_turns": 3, "max_response_tokens": 60},
    "evaluation": {"prompts": 2, "every": 1, "temperature": 0.0},
    "checkpoint": {"every": 1, "keep": 1},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a run that keeps the checkpoint of iteration 2."""
    folder = tmp_path_factory.mktemp("trained")
    run_factory.run(tiny.config(POCKET_CHECKPOINT, **SETTINGS), folder, folder / "cache")
    return folder


@pytest.fixture
def worker(people: People, tmp_path: Path, settings: Settings) -> Worker:
    settings.ECHOSCOPE_DATA_DIR = tmp_path / "data"
    now = timezone.now()
    return Worker.objects.create(name="worker@here", started_at=now, last_seen_at=now, data_folder="here")


@pytest.fixture
def finished(run: Run, worker: Worker, trained: Path) -> Run:
    """The run on the site, with its files on the worker."""
    shutil.copytree(trained, run.folder)
    run.config = tiny.config(POCKET_CHECKPOINT, **SETTINGS).model_dump(mode="json")
    run.state, run.data_folder = Run.State.STARTING, worker.data_folder
    run.save()
    JournalTailer(run).drain()
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED)
    run.refresh_from_db()
    return run
