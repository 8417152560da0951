"""Landlock: what no rule opens is closed, and other processes and other TCP ports are out of reach."""

from __future__ import annotations

import json
import os
import resource
import socket
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
    """A data folder with a secret, two runs and a cache, next to a file of the program."""
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


PYTHON = tuple(
    {str(Path(place).resolve()) for place in ("/usr", "/lib", "/lib64", sys.prefix, sys.base_prefix, "/proc")}
)
"""What a Python needs to start."""


def rules_of(data: Path, readable: tuple[str, ...] = (), **more: Any) -> Rules:
    writable = (str(data / "runs" / "own"), str(data / "missing"), "/dev/null")
    return Rules(writable=writable, readable=(*PYTHON, *readable), **more)


READ = "print(json.dumps([attempt(Path(word).read_text) for word in sys.argv[1:]]))"
LIST = "print(json.dumps([attempt(os.listdir, word) for word in sys.argv[1:]]))"


def test_only_what_a_rule_opens_can_be_read(site: Path) -> None:
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
    assert inside(rules, READ, *around) == ["PermissionError", "UnicodeDecodeError", ""]
    aside = [str(site.parents[1] / "link" / "secret_key"), f"/proc/self/root{site}/secret_key"]
    assert inside(rules, READ, *aside) == ["PermissionError"] * 2, "links lead nowhere else"


def test_names_are_closed_unless_a_folder_above_is_listed(site: Path) -> None:
    paths = [site, site / "runs", site / "runs" / "own", site.parent, site.parents[1] / "beside"]
    folders = [str(path) for path in paths]
    closed, denied = "", "PermissionError"
    assert inside(rules_of(site), LIST, *folders) == [denied, denied, closed, denied, denied]
    assert inside(rules_of(site, listed=(str(site.parent),)), LIST, *folders) == ["", "", "", "", denied]


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
    assert results[:4] == ["", *["PermissionError"] * 3]
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


@pytest.mark.skipif(os.uname().machine not in landlock.ARCHITECTURES, reason="no filter for this machine")
def test_limits_of_other_processes_are_out_of_reach(site: Path) -> None:
    work = """
import resource
limit = lambda pid: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1))
own = attempt(resource.setrlimit, resource.RLIMIT_NOFILE, (100, 100))
print(json.dumps([attempt(limit, int(sys.argv[1])), attempt(resource.prlimit, int(sys.argv[1]), resource.RLIMIT_CPU),
    own, attempt(resource.prlimit, os.getpid(), resource.RLIMIT_NOFILE)]))
"""
    with subprocess.Popen(["sleep", "60"]) as bystander:
        try:
            changed, read, *own = inside(rules_of(site), work, str(bystander.pid))
            assert resource.prlimit(bystander.pid, resource.RLIMIT_CPU) == resource.getrlimit(resource.RLIMIT_CPU)
        finally:
            bystander.kill()
    assert (changed, read) == ("PermissionError", "PermissionError")
    assert own == ["", ""], "its own ones it may change"


CONNECT = """
import socket
def connect(port):
    socket.create_connection(("127.0.0.1", port), timeout=5).close()
def listen():
    with socket.create_server(("127.0.0.1", 0)):
        pass
def connect_by_name():
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(chr(0) + sys.argv[3])
print(json.dumps([attempt(connect, int(sys.argv[1])), attempt(connect, int(sys.argv[2])), attempt(listen),
    attempt(connect_by_name)]))
"""


@pytest.mark.skipif(not landlock.limits_ports(), reason="this system's Landlock limits no ports")
def test_tcp_is_limited_to_the_listed_ports(site: Path) -> None:
    name = f"echoscope-test-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as allowed,
        socket.create_server(("127.0.0.1", 0)) as other,
        socket.socket(socket.AF_UNIX) as outside,
    ):
        outside.bind(f"\0{name}")
        outside.listen()
        ports = [allowed.getsockname()[1], other.getsockname()[1]]
        words = [*map(str, ports), name]
        scoped = "PermissionError" if landlock.version() >= landlock.SCOPES else ""
        assert inside(rules_of(site), CONNECT, *words) == ["", "", "", scoped]
        limited = inside(rules_of(site, ports=(ports[0],)), CONNECT, *words)
        assert limited == ["", "PermissionError", "PermissionError", scoped]
        assert inside(rules_of(site, ports=()), CONNECT, *words)[:2] == ["PermissionError"] * 2


def test_a_process_may_write_to_its_own_entry_in_proc_only(site: Path) -> None:
    work = """
comm = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/comm")
print(json.dumps([attempt(comm.write_text, "named"), attempt(Path("/proc/sys/kernel/core_pattern").open, "r+")]))
"""
    assert inside(rules_of(site), work) == ["PermissionError"] * 2
    assert inside(rules_of(site, own_process=True), work) == ["", "PermissionError"]


def test_without_landlock_its_version_is_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert landlock.version() == 0
    assert not landlock.is_available()
