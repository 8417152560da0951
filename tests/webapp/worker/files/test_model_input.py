"""Inputs of a run at its start: checked again by the worker, and checkpoints of other runs copied to its folder."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import Storage
from pytest_django import Settings

from tests.patience import SECONDS
from tests.webapp.conftest import People
from tests.webapp.runs.test_object_storage import another_machine, storage
from tests.webapp.worker.test_supervisor import INTERVALS, act, fresh, take
from trainer.config.run import RunConfig
from trainer.journal.protocol import MODEL_FOLDER
from webapp.runs import actions, object_storage
from webapp.runs.inputs.run_models import RunModel
from webapp.runs.launch.creation import do_create_run
from webapp.runs.models import Checkpoint, Run
from webapp.runs.run_files import RunFiles
from webapp.services.backup.archive import ArchiveManifest, ArchiveReader, ArchiveWriter
from webapp.services.backup.run_folders import copy_folder
from webapp.worker.files import model_input
from webapp.worker.files.model_input import ModelUnavailable
from webapp.worker.supervisor import supervise

__all__ = ["storage"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def trained(run: Run, settings: Settings, tmp_path: Path) -> Run:
    """A run of the owner's team with the checkpoints 1 to 4."""
    settings.ECHOSCOPE_DATA_DIR = tmp_path / "var"
    assert supervise(take(run), command=act("train"), intervals=INTERVALS) == "finished"
    return fresh(run)


def config(model: str, **sections: Any) -> dict[str, Any]:
    return RunConfig.model_validate({"policy": {"model": model}, **sections}).model_dump(mode="json")


def stored(people: People, data: dict[str, Any]) -> Run:
    """A run of the outsider's team whose configuration was written into the database directly."""
    team = people.outsider.memberships.get().team
    return Run.objects.create(team=team, author=people.outsider, title="Mine", config=data, environment="Sokoban")


def note(files: RunFiles) -> Sequence[str]:
    """A trainer that only writes down where its model is."""
    code = "import os, pathlib, sys; pathlib.Path(sys.argv[1]).write_text(os.environ[sys.argv[2]])"
    return [sys.executable, "-I", "-c", code, str(files.folder / "noted"), MODEL_FOLDER]


def start(run: Run) -> Path:
    """Start the run with that trainer. Returns the folder of its model."""
    supervise(take(run), command=note, intervals=INTERVALS)
    return Path((run.folder / "noted").read_text())


def test_a_worker_does_not_train_on_the_run_of_another_team(people: People, trained: Run) -> None:
    Run.objects.filter(pk=trained.pk).update(visibility=Run.Visibility.LINK)
    folder = str(trained.folder)
    refused = {
        f"run:{trained.slug}@4": config(f"run:{trained.slug}@4"),
        "may not read": config(folder),
        "environment.settings.path": config("pocket", environment={"name": "Boxoban", "settings": {"path": folder}}),
        "engine.urls": config("pocket", engine={"name": "server", "urls": ["http://127.0.0.1:9199"]}),
    }
    for data in refused.values():
        run = stored(people, data)
        assert supervise(take(run), command=note, intervals=INTERVALS) == "failed"
        assert fresh(run).failure.startswith("This run is not allowed on this site: ")
        assert not run.folder.exists()
        assert folder not in fresh(run).failure or folder in str(data)
    assert not list(Path(trained.folder).parent.glob("*/noted"))


def test_a_checkpoint_is_copied_into_the_run_and_outlives_its_source(people: People, trained: Run) -> None:
    run = do_create_run(people.team, people.owner, RunConfig.model_validate(config(f"run:{trained.slug}@3")))
    place = start(run)
    source = trained.folder / "checkpoints" / "000003"
    assert place == run.folder / ".initial" / trained.slug / "checkpoints" / "000003"
    assert sorted(file.name for file in place.iterdir()) == ["state.json", "weights"]
    assert (place / "weights").stat().st_mode & 0o222 == 0
    os.chmod(place / "weights", 0o600)
    (place / "weights").write_bytes(b"own")
    assert (source / "weights").read_bytes() == b"www", "the source has a file of its own"
    shutil.rmtree(source)
    Checkpoint.objects.filter(run=trained, iteration=3).delete()  # as its source does, which keeps only its newest
    actions.do_request(fresh(run), "resume")
    assert start(run) == place
    assert (place / "weights").read_bytes() == b"own"


def test_a_checkpoint_that_is_gone_is_explained(people: People, trained: Run) -> None:
    run = do_create_run(people.team, people.owner, RunConfig.model_validate(config(f"run:{trained.slug}@3")))
    shutil.rmtree(trained.folder / "checkpoints" / "000003")
    assert supervise(take(run), command=note, intervals=INTERVALS) == "failed"
    assert "policy.model: the checkpoint of run:" in fresh(run).failure
    assert "neither on this machine nor in storage" in fresh(run).failure
    unpinned = Run.objects.create(
        team=people.team, author=people.owner, title="x", config=config(f"run:{trained.slug}"), environment="Sokoban"
    )
    assert supervise(take(unpinned), command=note, intervals=INTERVALS) == "failed"
    assert "names no iteration" in fresh(unpinned).failure


def test_other_models_have_no_folder(people: People, trained: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MODEL_FOLDER, "/inherited")
    assert start(do_create_run(people.team, people.owner, RunConfig())) == Path("")


def test_a_hub_id_that_is_a_folder_of_the_worker_is_refused(
    people: People, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs" / "other").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    Run.objects.filter(pk=run.pk).update(config=config("runs/other"))
    assert supervise(take(run), command=note, intervals=INTERVALS) == "failed"
    assert "runs/other is the name of a model, but also a path on the worker" in fresh(run).failure


def test_a_checkpoint_is_fetched_from_storage(people: People, storage: Storage, trained: Run) -> None:
    another_machine(trained)
    run = do_create_run(people.team, people.owner, RunConfig.model_validate(config(f"run:{trained.slug}@4")))
    place = start(run)
    assert (place / "weights").read_bytes() == b"wwww"
    assert (place / "state.json").read_text() == '{"files": {}}'


def test_the_copy_of_a_checkpoint_is_in_storage_and_in_backups_too(
    people: People, storage: Storage, trained: Run, tmp_path: Path
) -> None:
    run = do_create_run(people.team, people.owner, RunConfig.model_validate(config(f"run:{trained.slug}@4")))
    weights = start(run) / "weights"
    kept = f".initial/{trained.slug}/checkpoints/000004"
    with ArchiveWriter(tmp_path / "backup.zip") as archive:
        assert copy_folder(archive, run.folder, run.slug).checkpoints == [], "it is no checkpoint of the run itself"
        archive.finish(ArchiveManifest("", []))
    assert f"runs/{run.slug}/{kept}/weights" in ArchiveReader(tmp_path / "backup.zip").names
    another_machine(run)
    another_machine(trained)
    object_storage.delete(storage, trained.slug)
    Checkpoint.objects.filter(run=trained).delete()
    actions.do_request(fresh(run), "resume")
    assert start(run) == weights.parent
    assert weights.read_bytes() == b"wwww"


@pytest.mark.parametrize(("link", "target"), [(".initial", ".."), (".initial/{slug}", "../../{slug}")])
def test_a_link_in_the_place_of_the_copy_leads_to_no_other_run(
    people: People, trained: Run, link: str, target: str
) -> None:
    """Code of an earlier attempt may have put it there: the checkpoint of the source would be replaced."""
    run = do_create_run(people.team, people.owner, RunConfig.model_validate(config(f"run:{trained.slug}@3")))
    place = run.folder / link.format(slug=trained.slug)
    place.parent.mkdir(parents=True)
    place.symlink_to(target.format(slug=trained.slug))
    (trained.folder / "checkpoints" / "000003" / "state.json").write_text("damaged")
    before = sorted(trained.folder.rglob("*"))
    assert supervise(take(run), command=note, intervals=INTERVALS) == "failed"
    assert "cannot be read" in fresh(run).failure
    assert sorted(trained.folder.rglob("*")) == before


class Lost(Exception):
    """Raised by a lease that is lost."""


def test_a_slow_download_keeps_the_lease_and_a_lost_one_cancels_it(
    people: People, storage: Storage, trained: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    another_machine(trained)
    opened: list[str] = []
    calls: list[int] = []
    released = threading.Event()
    real = type(storage).open

    def slow(self: Storage, name: str, mode: str = "rb") -> Any:
        if "checkpoints" in name:
            opened.append(name)
            assert released.wait(SECONDS), "the lease is not renewed while one file is read"
        return real(self, name, mode)

    def keep_alive() -> None:
        calls.append(len(opened))
        if calls.count(1) == 3:
            released.set()

    def lose() -> None:
        if opened:
            raise Lost

    monkeypatch.setattr(type(storage), "open", slow)
    model, files = RunModel(trained.slug, 4), RunFiles(tmp_path / "mine")
    with pytest.raises(Lost):
        model_input.provide(fresh(trained), model, files, lose)
    (thread,) = (one for one in threading.enumerate() if one.name == f"copy of {model}")
    released.set()
    thread.join(SECONDS)
    assert len(opened) == 1, "no other file was read"
    opened.clear()
    released.clear()
    assert (model_input.provide(fresh(trained), model, files, keep_alive) / "weights").read_bytes() == b"wwww"


def test_a_damaged_copy_is_replaced(people: People, trained: Run, tmp_path: Path) -> None:
    source = trained.folder / "checkpoints" / "000003"
    digest = hashlib.sha256(b"www").hexdigest()
    (source / "state.json").write_text(json.dumps({"files": {"weights": digest}}))
    model, files = RunModel(trained.slug, 3), RunFiles(tmp_path / "mine")
    place = model_input.provide(fresh(trained), model, files, lambda: None)
    for damage in (b"wxw", None):
        (place / "weights").unlink()
        if damage is not None:
            (place / "weights").write_bytes(damage)
        assert model_input.provide(fresh(trained), model, files, lambda: None) == place
        assert (place / "weights").read_bytes() == b"www"
    for folder in (place, source):
        (folder / "weights").unlink()
        (folder / "weights").write_bytes(b"xxx")
    with pytest.raises(ModelUnavailable, match="is damaged"):
        model_input.provide(fresh(trained), model, files, lambda: None)
    assert sorted(folder.name for folder in place.parent.iterdir()) == ["000003"]
