"""The child process that installs a model: `python -m trainer models fetch NAME --json`."""

from __future__ import annotations

import configparser
import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from trainer.models import store
from webapp.runs.run_files import TRAINERS_FOLDER
from webapp.worker import parent_guard
from webapp.worker.sandbox import tcp_ports, trainer_sandbox
from webapp.worker.trainer_environment import trainer_environment

PID_FILE = "fetch.json"
STALE_SECONDS = 5.0
MAX_LINE = 64 * 1024
TAIL_BYTES = 4096
INDEX_PREFIXES = ("PIP_", "UV_INDEX")
"""Variables with the operator's package index and its credentials, which trainers do not receive."""


@dataclass(frozen=True)
class FetchReport:
    """The newest report of the process: stage, and bytes of the stage (total 0 if unknown)."""

    stage: str = ""
    done: int = 0
    total: int = 0


def fetch_command(name: str) -> list[str]:
    """Return the command that installs a model of the catalogue."""
    return [sys.executable, "-m", "trainer", "models", "fetch", name, "--json"]


class FetchProcess:
    """An installation in a process group that ends with the thread that started it.

    It may write to the models folder and to caches, and cannot read the rest of the site's data.
    """

    def __init__(self, command: Sequence[str]) -> None:
        """Start the command. Raises OSError, ValueError, or StaleTrainer if an earlier installation cannot be ended."""
        folder = store.models_folder()
        data = Path(settings.ECHOSCOPE_DATA_DIR)
        pid_file = data / TRAINERS_FOLDER / PID_FILE  # not in the models folder, where the process writes
        pid_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        parent_guard.kill_stale_trainer(pid_file, STALE_SECONDS)
        environment = fetch_environment(os.environ)
        ports = tcp_ports.of_download(environment)
        prefix, variables = trainer_sandbox.command_prefix(data, folder, environment, ports=ports)
        self._tag = secrets.token_hex(8)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  read when the process has ended
        self._rest = b""
        self.report = FetchReport()
        self.error = ""
        shim = [sys.executable, "-I", "-S", parent_guard.__file__, str(os.getpid()), str(pid_file), "0"]
        self._process = subprocess.Popen(
            [*shim, *prefix, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
            env={**environment, **variables, "PYTHONUNBUFFERED": "1", parent_guard.TAG: self._tag},
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)

    def poll(self) -> int | None:
        """Read the process's reports. Returns the exit status, or None while it runs."""
        status = self._process.poll()
        self._read()
        if status is not None:
            self.kill()
        return status

    def kill(self) -> None:
        """Kill the process and everything it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        parent_guard.kill_tagged(self._tag)
        self._process.wait()
        shutil.rmtree(store.models_folder() / trainer_sandbox.TEMPORARY, ignore_errors=True)

    def failure(self, status: int) -> str:
        """Return why it failed, as a sentence for the page."""
        if self.error:
            return self.error[:1].upper() + self.error[1:].rstrip(".") + "."
        if status < 0:
            return (
                f"The download was ended by {signal.Signals(-status).name}; perhaps the worker's memory was exhausted."
            )
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - TAIL_BYTES))
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return f"The download failed with exit code {status}: {lines[-1][:500] if lines else 'no message'}"

    def _read(self) -> None:
        assert self._process.stdout is not None
        while data := self._process.stdout.read(MAX_LINE):
            *lines, self._rest = (self._rest + data).split(b"\n")
            self._rest = self._rest[-MAX_LINE:]
            for line in lines:
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return  # not from the command, as a library's print
        if not isinstance(message, dict):
            return
        if "error" in message:
            self.error = str(message["error"])
        elif "stage" in message:
            self.report = FetchReport(str(message["stage"])[:20], _bytes(message, "done"), _bytes(message, "total"))


def fetch_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the process receives: a trainer's variables, and the variables of the package index."""
    index = {name: value for name, value in environ.items() if name.startswith(INDEX_PREFIXES)}
    return pip_configuration() | trainer_environment({}, environ) | index


def pip_configuration() -> dict[str, str]:
    """Return the settings in pip's files as variables, since the process cannot read the account's files.

    The process may then also read the folders and connect to the ports that these settings name.
    """
    home = Path.home()
    shared = [Path("/etc/xdg/pip/pip.conf"), Path("/etc/pip.conf")]
    user_files = [home / ".pip/pip.conf", home / ".config/pip/pip.conf", Path(sys.prefix) / "pip.conf"]
    parser = configparser.RawConfigParser()
    try:
        parser.read([*shared, *user_files], encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return {}  # pip reports it
    values: dict[str, str] = {}
    for section in ("global", "download"):
        values |= dict(parser[section]) if parser.has_section(section) else {}
    return {f"PIP_{name.upper().replace('-', '_')}": " ".join(value.split()) for name, value in values.items()}


def _bytes(message: Mapping[str, Any], key: str) -> int:
    try:
        return max(0, min(int(message.get(key) or 0), 2**62))
    except (TypeError, ValueError):
        return 0
