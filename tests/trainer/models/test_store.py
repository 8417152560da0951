"""The folder of installed models: locks, names, and what is left after failures."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from trainer.config.catalogue import catalogue
from trainer.config.run import PolicyConfig
from trainer.models import store
from trainer.models.listing import size_text
from trainer.models.store import ModelRecord, ModelStoreError, ResumableError
from trainer.policy import shapes
from trainer.policy.load import ModelError, load
from webapp.services.addresses import ROOT


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ECHOSCOPE_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


def put(name: str, **record: str) -> Path:
    with store.staging(name) as work:
        (work / store.MODEL).mkdir()
        (work / store.MODEL / "config.json").write_text("{}")
        made = ModelRecord(name=name, source="here", added=datetime(2026, 1, 2, tzinfo=UTC), **record)
        store.write_record(work / store.MODEL, made)
    return store.models_folder() / name


def test_a_model_appears_only_when_it_is_complete(folder: Path) -> None:
    with store.staging("small") as work:
        (work / store.MODEL).mkdir()
        (work / store.MODEL / "config.json").write_text("{}")
        assert store.installed() == []
        assert store.find("small") is None
        with pytest.raises(ModelStoreError, match="another process installs or uses small"), store.staging("small"):
            pass
    assert [model.name for model in store.installed()] == ["small"]
    assert {path.name for path in folder.iterdir()} == {"small", ".locks"}


@pytest.mark.parametrize(("error", "kept"), [(ResumableError, True), (KeyboardInterrupt, True), (ValueError, False)])
def test_only_downloads_that_can_be_continued_are_kept(error: type[BaseException], kept: bool) -> None:
    def fail() -> None:
        with store.staging("small") as work:
            (work / store.MODEL).mkdir()
            (work / store.DOWNLOAD).mkdir()
            (work / store.DOWNLOAD / "weights").write_text("12345")
            raise error

    with pytest.raises(error):
        fail()
    assert [(item.name, item.bytes) for item in store.unfinished()] == ([("small", 5)] if kept else [])
    if kept:
        assert store.remove("small") == 5
    assert store.unfinished() == []


def test_a_model_in_use_is_not_removed(folder: Path) -> None:
    put("small")
    code = (
        "import sys; from trainer.models import store; store.hold(store.find('small'))\n"
        "print('held', flush=True); sys.stdin.read()"
    )
    argv = [sys.executable, "-c", code]
    with subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(ModelStoreError, match="uses small: wait until"):
            store.remove("small")
        process.communicate()
    assert store.remove("small") > 0
    assert not (folder / "small").exists()


def test_a_hub_id_is_found_only_where_the_files_are_its_own() -> None:
    path = put("copy", hub_id="some/model", revision="abc" + "0" * 37)
    put("quantised")
    assert store.find("some/model") == path
    assert store.find("some/model", "abc") == path
    assert store.find("some/model", "main") is None, "the branch may have moved on"
    assert store.find("some/other") is None


def test_the_error_for_a_model_that_is_not_installed_names_the_command() -> None:
    with pytest.raises(ModelError, match="python -m trainer models fetch smollm2-135m"):
        load("smollm2-135m", PolicyConfig(device="cpu"))
    with pytest.raises(ModelError, match="no installed model of that name"):
        load("smollm", PolicyConfig(device="cpu"))


def test_every_catalogue_model_has_its_published_size() -> None:
    for name, entry in catalogue().items():
        shape = shapes.find_shape(name)
        assert shape is not None
        assert shape.parameters == entry.parameters, name
        assert shape.context == entry.context
        assert entry.folder_bytes > 1.9 * entry.parameters
        assert store.store_name(entry.hub_id or "") == name


@pytest.mark.parametrize("name", ["", "a/b", "../x", ".hidden", "pocket", "x.partial", "a b", "x" * 101])
def test_names_that_are_no_folders_of_the_store_are_refused(name: str) -> None:
    with pytest.raises(ModelStoreError, match="cannot be a model's name"):
        store.check_name(name)
    assert store.find(name) is None


def test_the_page_lists_the_catalogue() -> None:
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    for name, entry in catalogue().items():
        gated = ", gated" if entry.gated else ""
        row = f"| `{name}` | {entry.label} | {entry.parameters / 1e6:,.0f} M | {size_text(entry.download_bytes)} | "
        assert f"{row}[{entry.licence}]({entry.licence_url}){gated} |" in page


def test_the_store_and_its_commands_load_no_torch() -> None:
    """The site imports them in its processes."""
    code = "import sys, trainer.models.fetch, trainer.models.listing; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
