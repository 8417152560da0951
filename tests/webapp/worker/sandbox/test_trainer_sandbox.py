"""What a trainer may reach of the site's data, by the worker's variables, and a supervised run that tries for more."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import pytest
from pytest_django import Settings

from tests.webapp.worker.test_supervisor import INTERVALS, take
from webapp.runs.models import Run
from webapp.runs.run_files import RunFiles
from webapp.worker.sandbox import landlock, trainer_sandbox
from webapp.worker.sandbox.trainer_sandbox import VARIABLE, command_prefix
from webapp.worker.supervisor import supervise

needs_landlock = pytest.mark.skipif(not landlock.is_available(), reason="this system has no Landlock")


def rules(data: Path, environment: dict[str, str], readable: tuple[Path, ...] = ()) -> landlock.Rules:
    (data / "runs" / "own").mkdir(parents=True, exist_ok=True)
    prefix, _ = command_prefix(data, data / "runs" / "own", environment, readable)
    return landlock.Rules(**{name: _tuple(value) for name, value in json.loads(prefix[-1]).items()})


def _tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


@needs_landlock
def test_caches_below_the_data_folder_are_open_and_the_runs_are_not(tmp_path: Path) -> None:
    data = tmp_path / "data"
    environment = {
        "HF_HOME": str(data / "models"),
        "ECHOSCOPE_CACHE": str(data / "models" / "echoscope"),
        "HOME": str(data),
        "TORCH_HOME": "/elsewhere",
        "XDG_CACHE_HOME": str(data / "runs"),
        "A": str(data),
        "B": "models",
        "PATH": f"{data}:/bin",
    }
    made = rules(data, environment, (data / "levels", Path("/srv/levels")))
    caches = {"models", "models/echoscope", ".cache", ".config", ".triton"}
    assert set(made.writable) == {str(data / "runs" / "own"), *(str(data / name) for name in caches)}
    assert made.readable == (str(data / "levels"),)
    assert made.closed == str(data)


@needs_landlock
def test_a_link_in_the_folder_of_a_run_opens_no_other_run(tmp_path: Path) -> None:
    """A variable names the checkpoint that a run begins with, which is in its folder."""
    runs = tmp_path / "data" / "runs"
    (runs / "other" / "checkpoints").mkdir(parents=True)
    (runs / "own").mkdir()
    (runs / "own" / ".initial").symlink_to("..")
    for place in (runs / "own" / ".initial" / "other" / "checkpoints", runs / "other", runs):
        assert rules(tmp_path / "data", {"MODEL": str(place)}).writable == (str(runs / "own"),)


@needs_landlock
def test_temporary_files_have_a_place_where_the_system_s_contains_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "data" / "runs" / "own"
    own.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    _, variables = command_prefix(tmp_path / "data", own, {})
    assert variables == {"TMPDIR": str(own / trainer_sandbox.TEMPORARY)}
    assert (own / trainer_sandbox.TEMPORARY).is_dir()
    _, variables = command_prefix(tmp_path / "data", own, {"TMPDIR": "/scratch"})
    assert variables == {}


def test_the_operator_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "off")
    assert command_prefix(tmp_path, tmp_path / "runs", {}) == ([], {})
    monkeypatch.setenv(VARIABLE, "of")
    with pytest.raises(ValueError, match="must be one of auto, required, off, not 'of'"):
        command_prefix(tmp_path, tmp_path / "runs", {})
    monkeypatch.setattr(landlock, "is_available", lambda: False)
    monkeypatch.setenv(VARIABLE, "")
    assert command_prefix(tmp_path, tmp_path / "runs", {}) == ([], {})
    monkeypatch.setenv(VARIABLE, "required")
    with pytest.raises(ValueError, match="no Landlock: that takes Linux"):
        command_prefix(tmp_path, tmp_path / "runs", {})


THIEF = """
import json, pathlib, sys
found = {}
for word in sys.argv[2:]:
    try:
        found[word] = pathlib.Path(word).read_text()
    except OSError as error:
        found[word] = type(error).__name__
pathlib.Path(sys.argv[1]).write_text(json.dumps(found))
"""


@needs_landlock
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("mode", ["auto", "off"])
def test_a_trainer_reads_neither_the_key_of_the_site_nor_other_runs(
    mode: str, run: Run, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, mode)
    settings.ECHOSCOPE_DATA_DIR = tmp_path / "data"
    secrets = [tmp_path / "data" / "secret_key", tmp_path / "data" / "runs" / "other" / "journal.jsonl"]
    for path in secrets:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("secret")

    def thief(files: RunFiles) -> list[str]:
        return [sys.executable, "-c", THIEF, str(files.folder / "found.json"), str(files.config), *map(str, secrets)]

    supervise(take(run), command=thief, intervals=INTERVALS)
    found = json.loads((run.folder / "found.json").read_text())
    assert [found[str(path)] for path in secrets] == ["secret" if mode == "off" else "PermissionError"] * 2
    assert "environment" in found[str(run.folder / "config.yaml")]
    assert not (run.folder / trainer_sandbox.TEMPORARY).exists()


@pytest.mark.django_db(transaction=True)
def test_a_sandbox_that_is_required_and_missing_is_the_reason_of_the_failure(
    run: Run, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    monkeypatch.setenv(VARIABLE, "required")
    monkeypatch.setattr(landlock, "is_available", lambda: False)
    assert supervise(take(run), command=lambda files: [sys.executable, "-c", ""], intervals=INTERVALS) == "failed"
    run.refresh_from_db()
    assert "ECHOSCOPE_TRAINER_SANDBOX is 'required', but this system has no Landlock" in run.failure
