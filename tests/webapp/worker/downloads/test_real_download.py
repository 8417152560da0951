"""A download by the real command, from a package index that is a folder with a wheel around a tiny GGUF file."""

from __future__ import annotations

import base64
import hashlib
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml
from django.utils import timezone
from pytest_django import Settings

from tests.patience import wait_until
from tests.trainer.models import tiny_gguf
from tests.webapp.conftest import People
from tests.webapp.worker.downloads.test_download_thread import NAME, State, state
from trainer.config.catalogue.entries import CATALOGUE_FILE
from trainer.models import store
from webapp.runs.models import StoredModel, Worker
from webapp.runs.stored_models import model_requests
from webapp.worker.downloads import models_folder
from webapp.worker.downloads.download_thread import ModelDownloads

pytestmark = pytest.mark.django_db(transaction=True)

PACKAGE, FILE = "tiny_model", "tiny.gguf"
COMMAND = """
import sys, tempfile
from pathlib import Path
from trainer.config.catalogue import entries
entries.CATALOGUE_FILE = Path(tempfile.mkdtemp(), "models.yaml")
entries.CATALOGUE_FILE.write_text(sys.argv.pop(1))
from trainer.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""The trainer's command line with another catalogue."""


def write_wheel(folder: Path) -> Path:
    """Write a wheel with the GGUF file as its only content."""
    folder.mkdir()
    words = tiny_gguf.smollm2_words()
    model = tiny_gguf.tiny_model("llama", len(words.tokens), num_hidden_layers=1)
    tiny_gguf.write(folder / FILE, model, "llama", words)
    info = f"{PACKAGE}-1.0.dist-info"
    files = {
        f"{PACKAGE}/{FILE}": (folder / FILE).read_bytes(),
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
        for name, data in files.items()
    )
    wheel = folder / f"{PACKAGE}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in (files | {f"{info}/RECORD": record.encode()}).items():
            archive.writestr(name, data)
    (folder / FILE).unlink()
    return wheel


@pytest.fixture
def catalogue_with() -> Callable[[str], str]:
    """Makes a catalogue whose model has no source but the package with that digest."""

    def make(sha256: str) -> str:
        entry = yaml.safe_load(CATALOGUE_FILE.read_text())[NAME]
        source = {"kind": "package", "requirement": "tiny-model==1.0", "sha256": [sha256], "quantisation": "F32"}
        entry["sources"] = [source | {"file": f"{PACKAGE}/{FILE}", "download_bytes": 50_000}]
        return yaml.safe_dump({NAME: entry})

    return make


@pytest.fixture
def worker(people: People, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Worker:
    """A worker whose package index is a folder, and which reaches no other."""
    settings.ECHOSCOPE_DATA_DIR = tmp_path / "data"
    monkeypatch.delenv("ECHOSCOPE_MODELS")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    models_folder.set_models_folder()
    now = timezone.now()
    store_id = models_folder.store_identity()
    return Worker.objects.create(name="worker@here", started_at=now, last_seen_at=now, model_store=store_id)


def command(catalogue: str) -> Callable[[str], Sequence[str]]:
    return lambda name: [sys.executable, "-c", COMMAND, catalogue, "models", "fetch", name, "--json"]


@pytest.mark.nightly
def test_a_model_of_the_package_index_is_installed(
    people: People, worker: Worker, tmp_path: Path, catalogue_with: Callable[[str], str]
) -> None:
    wheel = write_wheel(tmp_path / "index")
    catalogue = catalogue_with(hashlib.sha256(wheel.read_bytes()).hexdigest())
    model_requests.do_request_download(people.owner, NAME)
    thread = ModelDownloads(worker.name, worker.model_store, command(catalogue), pace=0.2)
    thread.start()
    try:
        wait_until(lambda: state() in (State.INSTALLED, State.FAILED))
    finally:
        thread.stop()
    stored = StoredModel.objects.get()
    assert (stored.state, stored.error) == (State.INSTALLED, "")
    assert (stored.source, stored.shape["hidden_size"]) == ("the Python package tiny-model==1.0", 64)
    assert next((store.models_folder() / NAME).glob("*.safetensors")).stat().st_size > 10_000
    assert {path.name for path in store.models_folder().iterdir()} >= {NAME}
    assert store.unfinished() == []


def test_an_index_that_lacks_the_package_is_named_in_the_error(
    people: People, worker: Worker, tmp_path: Path, catalogue_with: Callable[[str], str]
) -> None:
    (tmp_path / "index").mkdir()
    model_requests.do_request_download(people.owner, NAME)
    thread = ModelDownloads(worker.name, worker.model_store, command(catalogue_with("0" * 64)), pace=0.2)
    thread.start()
    try:
        wait_until(lambda: state() == State.FAILED)
    finally:
        thread.stop()
    error = StoredModel.objects.get().error
    assert "From the Python package tiny-model==1.0: the package index does not have it, or cannot be reached" in error
