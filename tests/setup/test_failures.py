"""Setup errors of an unsuitable machine: what happened, what was kept, what to do."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bootstrap import machine, uv
from bootstrap.__main__ import outdated_message
from bootstrap.progress import SetupError
from tests import running_product
from tests.patience import SECONDS
from webapp.core.private_files import DataFolderError, make_private
from webapp.services import addresses, programs, startup
from webapp.services.addresses import ROOT
from webapp.services.child_process import Program, spawn
from webapp.services.lock import AlreadyRunning, Lock
from webapp.services.startup import StartupError


def test_the_message_for_an_old_python_names_the_needed_version_and_a_working_command() -> None:
    message = outdated_message((3, 9, 2, "final", 0), "demo")
    assert message.startswith("Echoscope needs Python 3.11 or newer; this is 3.9.2")
    assert "make demo PYTHON=python3.12" in message


def old_pythons() -> list[str]:
    """Older Pythons on this machine."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [str(path) for minor in ("2.7", "3.6", "3.8", "3.9") for path in versions.glob(f"{minor}*/bin/python")]
    return found or [path for name in ("python2", "python3.9", "python3.10") if (path := shutil.which(name))]


@pytest.mark.parametrize("python", old_pythons() or [pytest.param("", marks=pytest.mark.skip("no old Python here"))])
def test_the_entry_point_runs_under_old_pythons_and_names_the_problem(python: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": str(tmp_path)}  # no newer Python to be found
    done = subprocess.run(
        [python, "-m", "bootstrap", "demo"], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "Echoscope needs Python 3.11 or newer; this is" in done.stderr
    assert "SyntaxError" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("module", ["bootstrap", "tests.suite"])
def test_an_unknown_target_names_the_list_of_known_ones(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, "deploy"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "There is no `make deploy`. `make help` lists the commands." in done.stderr


@pytest.mark.parametrize("words", [[], ["help"], ["--help"], ["up", "--help"], ["install", "-h"]])
def test_a_request_for_help_sets_nothing_up(words: list[str], tmp_path: Path) -> None:
    shutil.copytree(ROOT / "bootstrap", tmp_path / "bootstrap")
    shutil.copy(ROOT / "Makefile", tmp_path)
    argv = [sys.executable, "-m", "bootstrap", *words]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "make up             the same without the training run" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"bootstrap", "Makefile"}


@pytest.mark.parametrize(
    ("output", "advice"),
    [
        (
            "The virtual environment was not created: ensurepip is not available.",
            f"python3.{sys.version_info.minor}-venv",
        ),
        ("error: failed to copy file: No space left on device (os error 28)", "disk is full"),
        ("NewConnectionError: Failed to establish a new connection: Name or service not known", "Check the network"),
        ("ERROR: No matching distribution found for uv", "Try another Python: PYTHON=python3.12"),
        ("pycosat.c:18:10: fatal error: Python.h: No such file or directory", "apt-get install gcc"),
        ("error: command 'gcc' failed: No such file or directory", "apt-get install gcc"),
        ("an unknown error", "an unknown error"),
    ],
)
def test_failures_of_uv_pip_and_venv_are_explained(output: str, advice: str) -> None:
    text = uv.explain(output)
    assert advice in text
    assert "run the same command again" in text


def test_insufficient_disk_space_reports_the_required_amount(tmp_path: Path) -> None:
    machine.require_space(tmp_path, 1)
    with pytest.raises(SetupError, match=r"GB free, 4000000\.0 GB are needed. Nothing was changed"):
        machine.require_space(tmp_path, 4_000_000 * machine.GIB)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real disk of 20 MB, if mounting is permitted."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root may mount a small disk")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)  # a test may still hold the lock


def test_a_full_disk_is_refused_before_any_start(small_disk: Path) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "up"],
        cwd=ROOT,
        env=running_product.clean_environment(small_disk / "var"),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 1
    assert "MB free; 200 MB are needed to start. Nothing was started" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (small_disk / "var" / "postgres").exists()


def test_a_site_that_was_started_before_needs_less_space(small_disk: Path) -> None:
    (small_disk / "static").mkdir()
    with pytest.raises(StartupError, match="MB free; 50 MB are needed to start"):
        startup.check_space(small_disk)


def test_a_full_disk_leaves_the_notes_of_a_running_site_as_they_are(small_disk: Path) -> None:
    lock = Lock(small_disk)
    lock.take()
    assert lock.note(url="http://localhost:8123") is None
    chosen = addresses.choose(small_disk)
    redis = chosen.redis(small_disk)
    redis.configure()
    note, configuration = ((small_disk / name).read_text() for name in ("running.json", "redis/redis.conf"))
    with (small_disk / "large").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(1_000_000)):
            pass
    monitor = startup.ProgramMonitor(small_disk, lock, "http://localhost:8123", list)
    monitor({"Web": 17})  # a restarted program has another process id, which cannot be recorded
    redis.configure()
    assert addresses.choose(small_disk) == chosen
    assert (small_disk / "running.json").read_text() == note
    assert (small_disk / "redis/redis.conf").read_text() == configuration
    (small_disk / "large").unlink()
    monitor._next = 0.0
    monitor({"Web": 17})
    assert json.loads((small_disk / "running.json").read_text())["programs"] == {"Web": 17}


def test_a_program_starts_without_a_log_on_a_full_disk(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,nr_inodes=2", str(small_disk)], check=True)
    (small_disk / "last").touch()
    program = Program(
        name="Program",
        argv=[sys.executable, "-c", "print('hello')"],
        log=small_disk / "log" / "program.log",
        ready=lambda: True,
    )
    assert spawn(program).wait(SECONDS) == 0


def test_worker_and_clock_print_no_banner_which_would_end_them_on_a_full_disk(tmp_path: Path) -> None:
    for program in (programs.worker({}, tmp_path), programs.clock({}, tmp_path)):
        assert "--quiet" in program.argv


def test_a_read_only_data_folder_is_explained_in_a_sentence(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    done = subprocess.run(
        [sys.executable, "manage.py", "up"],
        cwd=ROOT,
        env=running_product.clean_environment(small_disk),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 1
    assert f"The data folder {small_disk} cannot be written: Read-only file system." in done.stderr
    assert "ECHOSCOPE_DATA_DIR=/another/folder" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_read_only_folder_with_a_key_is_explained_by_the_lock(small_disk: Path) -> None:
    (small_disk / "secret_key").write_text("x")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(DataFolderError, match="cannot be written: Read-only file system"):
        Lock(small_disk).take()


class TestPrivateFolders:
    def test_a_new_or_existing_folder_is_closed_to_other_accounts(self, tmp_path: Path) -> None:
        old = tmp_path / "old"
        old.mkdir(mode=0o755)
        old.chmod(0o755)
        for folder in (old, tmp_path / "new"):
            make_private(folder)
            assert folder.stat().st_mode & 0o777 == 0o700

    @pytest.mark.parametrize("mode", [0o1777, 0o2770])
    def test_a_folder_shared_on_purpose_is_left_alone(self, tmp_path: Path, mode: int) -> None:
        tmp_path.chmod(mode)
        make_private(tmp_path)
        assert tmp_path.stat().st_mode & 0o7777 == mode

    def test_a_started_lock_closes_the_data_folder(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o755)
        Lock(tmp_path).take()
        assert tmp_path.stat().st_mode & 0o777 == 0o700

    @pytest.mark.parametrize(
        "start",
        ["import sys, manage; sys.argv = ['manage.py', 'version']; manage.main()", "import webapp.asgi, webapp.celery"],
    )
    def test_every_program_writes_private_files(self, start: str) -> None:
        code = f"import os; {start}; print(oct(os.umask(0)))"
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
        assert done.stdout.splitlines()[-1:] == ["0o77"], done.stderr


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port that another program listens on."""
    with closing(socket.socket()) as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_a_requested_port_in_use_is_refused_with_an_alternative(taken_port: int) -> None:
    with pytest.raises(StartupError, match=rf"Port {taken_port} .* taken by another program.*ECHOSCOPE_PORT=\d+"):
        startup.choose_port(str(taken_port), "127.0.0.1")


def test_the_default_is_the_next_free_port(taken_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "FIRST_PORT", taken_port)
    chosen = startup.choose_port("", "127.0.0.1")
    assert chosen > taken_port
    assert addresses.is_free(chosen)


@pytest.mark.parametrize("wish", ["eighty", "0", "70000", "-1"])
def test_an_invalid_port_is_refused(wish: str) -> None:
    with pytest.raises(StartupError, match="must be a number from 1 to 65535"):
        startup.choose_port(wish, "127.0.0.1")


def test_a_second_lock_on_a_folder_is_refused_while_the_first_is_held(tmp_path: Path) -> None:
    first = Lock(tmp_path)
    first.take()
    first.note(url="http://localhost:8123")
    with pytest.raises(AlreadyRunning, match=rf"at http://localhost:8123 \(process {os.getpid()}\)"):
        Lock(tmp_path).take()
    del first
    Lock(tmp_path).take()


def test_ports_and_passwords_are_reused_and_only_a_port_in_use_changes(tmp_path: Path) -> None:
    first = addresses.choose(tmp_path)
    assert addresses.choose(tmp_path) == first
    with closing(socket.socket()) as other:
        other.bind(("127.0.0.1", first.redis_port))
        other.listen()
        second = addresses.choose(tmp_path)
    assert second.redis_port != first.redis_port
    assert (second.postgres_port, second.redis_password) == (first.postgres_port, first.redis_password)
    assert (tmp_path / "services.json").stat().st_mode & 0o077 == 0


def test_an_intel_mac_and_windows_are_refused_before_anything_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    machine.require_supported_system()
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    with pytest.raises(SetupError, match=r"no build for Intel Macs(.|\n)*docker compose up"):
        machine.require_supported_system()
    monkeypatch.setattr("platform.system", lambda: "Windows")
    with pytest.raises(SetupError, match="On Windows use WSL"):
        machine.require_supported_system()


def test_bytecode_is_cached_in_a_separate_folder_where_writing_it_is_disabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "module.py").write_text("")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    machine.cache_bytecode(tmp_path / "compiled")
    subprocess.run([sys.executable, "-c", "import module"], cwd=tmp_path / "sources", check=True)
    assert [path.name for path in (tmp_path / "sources").iterdir()] == ["module.py"]
    assert list((tmp_path / "compiled").rglob("module.*.pyc"))


def test_where_bytecode_is_written_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    machine.cache_bytecode(ROOT / "nowhere")
    assert "PYTHONPYCACHEPREFIX" not in os.environ
