"""Run folders that code in a trainer has prepared: programs that open them show, change and kill nothing else."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest
from django.core.files.storage import FileSystemStorage
from pytest_django import Settings

from tests.patience import SECONDS
from tests.webapp import journal_builder
from tests.webapp.page_requests import Visitors, who
from tests.webapp.runs.test_untrusted_folder import ODD_NAMES, SECRET, TRAPS
from tests.webapp.worker.test_supervisor import INTERVALS, fresh, take
from trainer.journal import protocol
from trainer.journal.observation_images import IMAGES_FOLDER, ObservationImage, image_path
from trainer.journal.protocol import JOURNAL_FILE, LOG_FILE, checkpoint_path
from webapp.ingest.rebuild import RebuildRefused, do_rebuild_ended, do_recover_cut_journal
from webapp.ingest.tailer import JournalTailer
from webapp.pages.runs.log_views import read_output
from webapp.runs import object_storage, run_files, setting_changes, token_subscriptions
from webapp.runs.actions import do_request
from webapp.runs.inputs.run_models import RunModel
from webapp.runs.models import Run
from webapp.runs.run_files import RunFiles
from webapp.services.backup.archive import ArchiveManifest, ArchiveWriter
from webapp.services.backup.run_folders import copy_folder
from webapp.trajectories import observation_images
from webapp.worker import parent_guard
from webapp.worker.files import model_input
from webapp.worker.run_limits import folder_bytes
from webapp.worker.sandbox import landlock
from webapp.worker.supervisor import supervise
from webapp.worker.trainer_process import TrainerProcess

__all__ = ["who"]
pytestmark = pytest.mark.django_db(transaction=True)

CHECKPOINT = checkpoint_path(4)
DIGEST = hashlib.sha256(b"image").hexdigest()
IMAGE = ObservationImage(sha256=DIGEST, media_type="image/png", width=1, height=1, bytes=5)
FILES = (
    protocol.JOURNAL_FILE,
    protocol.CONFIG_FILE,
    protocol.LOG_FILE,
    protocol.WATCH_FILE,
    protocol.CHANGES_FILE,
    f"{CHECKPOINT}/model.safetensors",
    f"{CHECKPOINT}/{protocol.CHECKPOINT_STATE}",
    f"{CHECKPOINT}/{protocol.LEARNER_STATE}",
    f"{CHECKPOINT}/{protocol.ADAPTER_FOLDER}/weights",
    f"{protocol.WARMED_UP_FOLDER}/weights",
    object_storage.TOKEN,
    image_path(DIGEST, "image/png"),
)
FOLDERS = (protocol.CHECKPOINTS_FOLDER, CHECKPOINT, f"{CHECKPOINT}/{protocol.ADAPTER_FOLDER}", IMAGES_FOLDER)
Programs = dict[str, Callable[[], object]]


def test_the_table_has_every_file_of_the_contract() -> None:
    names = {str(value) for name, value in vars(protocol).items() if name.endswith(("_FILE", "_STATE", "_FOLDER"))}
    names -= {protocol.MODEL_FOLDER}  # a variable
    assert names <= {part for path in FILES for part in path.split("/")}


@pytest.fixture
def victim(settings: Settings, tmp_path: Path) -> Path:
    """The folder of another run, with a secret in each file and a journal that could be ingested."""
    settings.ECHOSCOPE_DATA_DIR = tmp_path / "data"
    folder = tmp_path / "data" / "runs" / "other"
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(SECRET)
    (folder / JOURNAL_FILE).unlink()
    journal_builder.write(folder, *journal_builder.whole_run(1))
    with (folder / JOURNAL_FILE).open("ab") as file:
        file.write(SECRET)
    return folder


@pytest.fixture
def prepared(run: Run, victim: Path) -> Run:
    """A run with a plain file of each kind, and no event in its journal."""
    for name in FILES:
        (run.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (run.folder / name).write_bytes(b'{"files": {}}')
    (run.folder / JOURNAL_FILE).write_bytes(b"")
    (run.folder / object_storage.TOKEN).unlink()
    return run


@pytest.fixture
def deadline() -> Iterator[None]:
    """Fails the test if a program waits, whatever errors it catches."""

    def stuck(number: int, frame: object) -> None:
        pytest.fail("a program waits for the file of a run", pytrace=True)

    former = signal.signal(signal.SIGALRM, stuck)
    signal.alarm(int(SECONDS))
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, former)


def state_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode)
        for path in folder.rglob("*")
        if path.is_file()
    }


def readers(run: Run, place: Path) -> Programs:
    """Every program that reads run folders: what it shows, sends or stores."""

    def uploaded() -> object:
        object_storage.copy(run.folder, FileSystemStorage(place / "bucket"), run.slug, object_storage.Manifest())
        return state_of(place / "bucket")

    def saved() -> object:
        with ArchiveWriter(place / "backup.zip") as archive:
            copy_folder(archive, run.folder, run.slug)
            archive.finish(ArchiveManifest("", []))
        with zipfile.ZipFile(place / "backup.zip") as archive_file:
            return [archive_file.read(name) for name in archive_file.namelist()]

    def begun_with() -> object:
        model = RunModel(run.slug, 4)
        return state_of(model_input.provide(run, model, RunFiles(place / "mine"), lambda: None))

    return {
        "log page": lambda: read_output(run, None),
        "log tail": lambda: run_files.log_tail(run),
        "journal": lambda: list(run_files.journal(run) or ()),
        "checkpoint": lambda: list(run_files.checkpoint(run, 4) or ()),
        "model": lambda: list(run_files.model(run, 4) or ()),
        "image": lambda: observation_images.read_image(run, IMAGE),
        "ingest": lambda: JournalTailer(fresh(run)).drain(),
        "rebuild": lambda: do_rebuild_ended(run).journal_error,
        "object storage": uploaded,
        "backup": saved,
        "run that begins with it": begun_with,
        "limits": lambda: folder_bytes(run.folder),
    }


def writers(run: Run) -> Programs:
    """Every program that writes into run folders or deletes from them."""
    files = RunFiles(run.folder)

    def train() -> object:
        command = [sys.executable, "-c", "print('output')"]
        trainer = TrainerProcess(command, files, lambda *_: None, lambda _: None, environment={})
        while trainer.exit_status() is None:
            pass
        return trainer.log_tail()

    return {
        "trainer": train,
        "subscriptions": lambda: token_subscriptions.write(run.folder, ["a"]),
        "changes of settings": lambda: setting_changes.deliver(files.inside, []),
        "recovery": lambda: do_recover_cut_journal(run).journal_error,
        "image": lambda: observation_images.store_image(run, IMAGE, b"image"),
        "retention": lambda: list(observation_images.delete_images(run, ())),
        "deletion": lambda: files.delete(),
    }


def run_all(programs: Programs) -> str:
    """What they return; those that find no plain file say so."""
    results = []
    for program in programs.values():
        with suppress(FileNotFoundError, model_input.ModelUnavailable, RebuildRefused):
            results.append(program())
    return repr(results)


EVERY_COMMIT = {*product(FILES, ("link", "pipe")), *product((JOURNAL_FILE,), TRAPS)}
"""A link and a file that blocks its reader in each place; every trap once, since one function refuses all of them."""
CASES = [
    pytest.param(*case, marks=() if case in EVERY_COMMIT else pytest.mark.nightly) for case in product(FILES, TRAPS)
]


@pytest.mark.usefixtures("deadline")
@pytest.mark.parametrize(("name", "trap"), CASES)
def test_no_program_goes_along_with_a_trap(name: str, trap: str, prepared: Run, victim: Path, tmp_path: Path) -> None:
    place, before = prepared.folder / name, state_of(victim)
    place.unlink(missing_ok=True)
    TRAPS[trap](place, victim / name)
    shown = run_all(readers(prepared, tmp_path)) + run_all(writers(prepared))
    assert SECRET.decode() not in shown
    assert fresh(prepared).seq == 0
    assert state_of(victim) == before
    assert (victim / name).stat().st_nlink == (2 if trap == "hard link" and os.path.lexists(place) else 1)


@pytest.mark.usefixtures("deadline")
@pytest.mark.parametrize("name", FOLDERS)
def test_no_program_follows_a_link_in_the_place_of_a_folder(
    name: str, prepared: Run, victim: Path, tmp_path: Path
) -> None:
    before = state_of(victim)
    shutil.rmtree(prepared.folder / name)
    (prepared.folder / name).symlink_to(os.path.relpath(victim / name, (prepared.folder / name).parent))
    shown = run_all(readers(prepared, tmp_path)) + run_all(writers(prepared))
    assert SECRET.decode() not in shown
    assert state_of(victim) == before


def test_plain_files_are_read_and_written_as_ever(prepared: Run, tmp_path: Path) -> None:
    (prepared.folder / LOG_FILE).write_text("the loss falls\n")
    results = {name: program() for name, program in readers(prepared, tmp_path).items()}
    assert "the loss falls" in str(results["log page"])
    assert results["log tail"] == "the loss falls\n"
    for name in ("checkpoint", "model", "object storage", "backup", "run that begins with it"):
        assert '{"files": {}}' in repr(results[name]), name
    assert "the loss falls" in repr(results["backup"])
    written = writers(prepared)
    assert written["trainer"]() == "output"
    assert (prepared.folder / LOG_FILE).read_text() == "the loss falls\noutput\n"
    written["subscriptions"]()
    assert json.loads((prepared.folder / protocol.WATCH_FILE).read_text()) == {"trajectories": ["a"]}
    written["changes of settings"]()
    assert json.loads((prepared.folder / protocol.CHANGES_FILE).read_text()) == {"requests": []}
    written["image"]()
    assert list(written["retention"]()) == [(DIGEST, 5)]  # type: ignore[call-overload]
    written["deletion"]()
    assert not prepared.folder.exists()
    assert not RunFiles(prepared.folder).pid.exists()


def test_odd_names_stop_no_program(prepared: Run, tmp_path: Path) -> None:
    for folder in ("", CHECKPOINT, IMAGES_FOLDER):
        for name in ODD_NAMES:
            (prepared.folder / folder / os.fsdecode(name)).write_bytes(SECRET)
    for name, program in readers(prepared, tmp_path).items():
        assert SECRET.decode() not in repr(program()), name
    for program in writers(prepared).values():
        program()
    assert not prepared.folder.exists()


def test_a_backup_names_what_it_leaves_out(prepared: Run, victim: Path, tmp_path: Path) -> None:
    (prepared.folder / LOG_FILE).unlink()
    (prepared.folder / LOG_FILE).symlink_to(victim / LOG_FILE)
    with ArchiveWriter(tmp_path / "backup.zip") as archive:
        assert copy_folder(archive, prepared.folder, prepared.slug).refused == [LOG_FILE]


MALICE = """
import json, os, sys
from pathlib import Path
own, secret, record, bystander = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
(own / "trainer.pid").write_text(bystander)
denied = []
for work in (lambda: record.write_text(bystander), record.read_text, record.parent.rmdir, secret.read_text):
    try:
        work()
    except PermissionError:
        denied.append(True)
for name in ("log.txt", "watch.json", "config.new", "watch.json.new", "journal.jsonl", "copy.txt", "tmp"):
    (own / name).unlink(missing_ok=True) if not (own / name).is_dir() else os.rename(own / name, own / "aside")
    (own / name).symlink_to(secret)
(own / ".initial").symlink_to("..")
(own / "denied").write_text(json.dumps(denied))
"""


@pytest.mark.skipif(not landlock.is_available(), reason="this system has no Landlock")
def test_a_trainer_in_its_sandbox_gains_nothing_by_what_it_leaves(
    run: Run, victim: Path, settings: Settings, who: Visitors
) -> None:
    key, other = settings.ECHOSCOPE_DATA_DIR / "secret_key", state_of(victim)
    key.write_bytes(SECRET)
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    try:
        pid = bystander.pid
        record = {"pid": pid, "born": parent_guard.start_time(pid), "host": os.uname().nodename, "mark": ""}

        def malice(files: RunFiles) -> list[str]:
            words = [str(files.folder), str(key), str(files.pid), json.dumps(record)]
            return [sys.executable, "-c", MALICE, *words]

        supervise(take(run), command=malice, intervals=INTERVALS)
        assert json.loads((run.folder / "denied").read_text()) == [True] * 4
        shown = [who.owner.get(f"/runs/{run.slug}/{page}") for page in ("log", "log.json", "log.txt", "export/journal")]
        pages = [b"".join(page) for page in shown]  # type: ignore[call-overload]
        for _ in range(2):
            do_request(fresh(run), "resume")
            supervise(take(run), command=malice, intervals=INTERVALS)
            assert "log.txt" in fresh(run).failure
        now = fresh(run)
        assert SECRET not in b"".join([*pages, now.failure.encode(), now.log_tail.encode(), now.journal_error.encode()])
        assert bystander.poll() is None
        assert key.read_bytes() == SECRET
        assert state_of(victim) == other
    finally:
        bystander.kill()
        bystander.wait()
