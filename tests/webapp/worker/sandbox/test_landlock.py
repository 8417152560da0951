"""Landlock: a closed folder is closed, what is open in it and around it is not; other processes are out of reach."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from webapp.worker.sandbox import landlock
from webapp.worker.sandbox.landlock import Rules

pytestmark = pytest.mark.skipif(not landlock.is_available(), reason="this system has no Landlock")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A data folder with a secret, two runs and a cache; beside it a file of the program."""
    data = tmp_path / "site" / "data"
    for name in ("runs/own", "runs/other", "models", "levels"):
        (data / name).mkdir(parents=True)
    for name in ("secret_key", "runs/own/config.yaml", "runs/other/journal.jsonl", "models/weights", "levels/one"):
        (data / name).write_text(name)
    (tmp_path / "site" / "program.py").write_text("program")
    (tmp_path / "beside").mkdir()
    (tmp_path / "link").symlink_to(data)
    return data


def inside(rules: Rules, code: str, *words: str) -> Any:
    """What a restricted Python prints as JSON. `code` has `attempt(function, *arguments)`: "" or the error's name."""
    prelude = """
import json, os, sys
from pathlib import Path
def attempt(work, *arguments):
    try:
        work(*arguments)
    except Exception as error:
        return type(error).__name__
    return ""
"""
    argv = [sys.executable, "-I", "-S", landlock.__file__, rules.dump(), sys.executable, "-c", prelude + code, *words]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def rules_of(data: Path, **more: Any) -> Rules:
    return Rules(str(data), writable=(str(data / "runs" / "own"), str(data / "missing")), **more)


READ = "print(json.dumps([attempt(Path(word).read_text) for word in sys.argv[1:]]))"
LIST = "print(json.dumps([attempt(os.listdir, word) for word in sys.argv[1:]]))"


def test_only_what_is_open_in_a_closed_folder_can_be_read(site: Path) -> None:
    names = ["secret_key", "runs/own/config.yaml", "runs/other/journal.jsonl", "models/weights", "levels/one"]
    rules = rules_of(site, readable=(str(site / "levels"),))
    assert inside(rules, READ, *(str(site / name) for name in names)) == [
        "PermissionError",
        "",
        "PermissionError",
        "PermissionError",
        "",
    ]
    around = [str(site.parent / "program.py"), sys.executable, "/proc/self/status"]
    assert inside(rules, READ, *around) == ["", "UnicodeDecodeError", ""]
    aside = [str(site.parents[1] / "link" / "secret_key"), f"/proc/self/root{site}/secret_key"]
    assert inside(rules, READ, *aside) == ["PermissionError"] * 2, "links lead nowhere else"


def test_names_in_a_closed_folder_are_closed_unless_its_parent_is_listed(site: Path) -> None:
    paths = [site, site / "runs", site / "runs" / "own", site.parent, site.parents[1] / "beside"]
    folders = [str(path) for path in paths]
    closed, denied = "", "PermissionError"
    assert inside(rules_of(site), LIST, *folders) == [denied, denied, closed, denied, ""]
    assert inside(rules_of(site, listed=(str(site.parent),)), LIST, *folders) == [""] * 5


def test_a_run_writes_moves_and_deletes_in_its_own_folder_only(site: Path) -> None:
    work = """
own, other, levels, beside = map(Path, sys.argv[1:])
def save(folder):
    (folder / ".partial").mkdir()
    (folder / ".partial" / "weights").write_bytes(b"x" * 100)
    os.truncate(folder / ".partial" / "weights", 10)
    (folder / ".partial").rename(folder / "000001")
    (folder / "moved").mkdir()
    (folder / "000001" / "weights").rename(folder / "moved" / "weights")
    os.mkfifo(folder / "pipe")
print(json.dumps([attempt(save, folder) for folder in (own, other, levels, beside)]
    + [attempt(os.link, other / "journal.jsonl", own / "stolen"), attempt((own / "config.yaml").unlink)]))
"""
    folders = [site / "runs" / "own", site / "runs" / "other", site / "levels", site.parents[1] / "beside"]
    rules = rules_of(site, readable=(str(site / "levels"),))
    results = inside(rules, work, *map(str, folders))
    assert results[:4] == ["", "PermissionError", "PermissionError", ""]
    assert results[4] in ("OSError", "PermissionError")
    assert results[5] == ""
    assert (folders[0] / "moved" / "weights").stat().st_size == 10
    assert (folders[1] / "journal.jsonl").read_text() == "runs/other/journal.jsonl"


def test_processes_outside_are_out_of_reach_and_children_are_restricted_too(site: Path) -> None:
    work = """
import subprocess
secret = sys.argv[2]
child = subprocess.run([sys.executable, "-c", f"open({secret!r})"], capture_output=True, text=True)
own = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
seen = attempt(Path(f"/proc/{own.pid}/environ").read_bytes)
own.kill()
print(json.dumps([attempt(Path(f"/proc/{sys.argv[1]}/environ").read_bytes), attempt(os.kill, int(sys.argv[1]), 0),
    "PermissionError" in child.stderr, seen]))
"""
    environ, signalled, child, own = inside(rules_of(site), work, str(os.getpid()), str(site / "secret_key"))
    assert environ == "PermissionError"
    assert signalled == ("PermissionError" if landlock.version() >= 6 else "")
    assert child
    assert own == "", "its own children it may watch"


def test_without_landlock_its_version_is_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert landlock.version() == 0
    assert not landlock.is_available()
