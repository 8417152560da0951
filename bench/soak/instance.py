"""A separate instance of the whole product on loopback, and a second machine with a wrong clock and a bad network."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import psutil

from bench.soak import wrong_clock
from bench.soak.older_version import OlderVersion
from webapp.services import programs
from webapp.services.addresses import LOOPBACK, ROOT, Addresses, free_port, is_free, stored_addresses
from webapp.services.child_process import Program, kill_group, send_stop_signal, spawn, stop
from webapp.services.unprivileged_user import child_setup

START_TIMEOUT = 600.0
STOP_TIMEOUT = 150.0
ACCOUNT = """
import secrets
from django.conf import settings
from django.test import Client
from webapp.teams.actions import do_create_team, do_create_token, do_create_user
user = do_create_user("bench", secrets.token_urlsafe(12))
team = do_create_team("Bench", user)
_, secret = do_create_token(team, user, "bench", ["read", "write"])
client = Client()
client.force_login(user)
name = settings.SESSION_COOKIE_NAME
print("account", secret, f"{name}={client.cookies[name].value}")
"""


class InstanceError(RuntimeError):
    """The product does not start or stop. The message contains its terminal output."""


def find_processes(home: Path) -> dict[int, str]:
    """Return command lines of the data folder's running processes, by process id; zombies are left out.

    A process belongs to the folder if its environment, its arguments or its working directory names it.
    """
    lines_by_pid = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            if command and (
                str(home).encode() in command
                or f"ECHOSCOPE_DATA_DIR={home}".encode() in (entry / "environ").read_bytes().split(b"\0")
                or (entry / "cwd").resolve().is_relative_to(home)
            ):
                lines_by_pid[int(entry.name)] = command.replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
    return lines_by_pid


def children(pid: int) -> dict[int, str]:
    """Return command lines of a process's running children, by process id."""
    lines_by_pid = {}
    with suppress(psutil.Error):
        for child in psutil.Process(pid).children():
            with suppress(psutil.Error):
                lines_by_pid[child.pid] = " ".join(child.cmdline())
    return {pid: line for pid, line in lines_by_pid.items() if line}


def is_alive(pid: int) -> bool:
    """Return True if a process exists and is not a zombie."""
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.Error:
        return False


@dataclass
class Instance:
    """`manage.py up` of a separate data folder, restarted by its operator when it was killed.

    Attributes:
        home: the data folder.
        port: port of its web server, the same after each start.
        token: token of an API client that may write.
        cookie: cookie of a user who may see the runs.
    """

    home: Path
    slots: int = 2
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    token: str = ""
    cookie: str = ""
    starts: int = 0

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    @property
    def storage(self) -> Path:
        """Object storage of the copies of runs: a folder on another disk than the data folder."""
        return self.home.with_name("storage")

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "REDIS_URL"}}
        return kept | {
            "ECHOSCOPE_DATA_DIR": str(self.home),
            "ECHOSCOPE_PORT": str(self.port),
            "ECHOSCOPE_MAX_RUNS": str(self.slots),
            "ECHOSCOPE_STORAGE": self.storage.as_uri(),
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
        }

    @property
    def addresses(self) -> Addresses | None:
        return stored_addresses(self.home)

    def launch(self) -> None:
        """Start `manage.py up` without waiting for it. Call it from the main thread, which it must not outlive."""
        self.home.mkdir(parents=True, exist_ok=True)
        self._mark = self._terminal.stat().st_size if self._terminal.exists() else 0
        with self._terminal.open("ab") as terminal:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up", "--no-browser"],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=terminal,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=child_setup(None, signal.SIGTERM),
            )
        self.starts += 1

    @property
    def _terminal(self) -> Path:
        return self.home.with_name(f"{self.home.name}-terminal.txt")  # elsewhere, as its disk may be full

    def terminal(self) -> str:
        """Return the output of the newest start."""
        return self._terminal.read_bytes()[self._mark :].decode(errors="replace")

    def is_ready(self) -> bool:
        """Return True if the newest start has finished. Raises InstanceError if it ended instead."""
        if self.process is None or self.process.poll() is not None:
            raise InstanceError(f"manage.py up ended:\n{self.terminal()}")
        return "Ctrl-C stops everything" in self.terminal()

    def can_launch(self) -> bool:
        """Return True if an earlier start's port is free and its programs have ended."""
        return is_free(self.port) and not [pid for pid, line in find_processes(self.home).items() if "postgres" in line]

    def start(self) -> None:
        """Start it, wait until it is ready, and create an account the first time. Raises InstanceError."""
        self.launch()
        deadline = time.monotonic() + START_TIMEOUT
        while not self.is_ready():
            if time.monotonic() > deadline:
                raise InstanceError(f"manage.py up is not ready after {START_TIMEOUT:.0f} s:\n{self.terminal()}")
            time.sleep(0.1)
        if not self.token:
            output = self.manage("shell", code=ACCOUNT)
            account = re.search(r"^account (\S+) (\S+)$", output, re.MULTILINE)
            if account is None:
                raise InstanceError(f"no account could be created:\n{output}")
            self.token, self.cookie = account[1], account[2]

    def manage(self, *arguments: str, code: str | None = None) -> str:
        """Return the output of a management command. Raises InstanceError if it fails."""
        argv = [sys.executable, "manage.py", *arguments]
        done = subprocess.run(
            argv, cwd=ROOT, env=self.environment, input=code, capture_output=True, text=True, timeout=START_TIMEOUT
        )
        if done.returncode:
            raise InstanceError(f"manage.py {arguments[0]} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def pid(self, program: str) -> int | None:
        """Return the process id of PostgreSQL, Redis, Web, Worker or Clock, if it is running."""
        try:
            pid = int(json.loads((self.home / "running.json").read_text())["programs"][program])
        except (OSError, ValueError, KeyError):
            return None
        return pid if is_alive(pid) else None

    def watchdog(self) -> int | None:
        """Return the process id of the supervisor's watchdog, if it is running."""
        if self.process is None:
            return None
        pids = [pid for pid, line in children(self.process.pid).items() if "watchdog.py" in line]
        return pids[0] if pids else None

    def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        """Return the JSON answer of an API operation. Raises httpx.HTTPError."""
        answer = httpx.request(
            method,
            f"{self.url}/api{path}",
            json=body,
            headers={"Authorization": f"Bearer {self.token}", **(headers or {})},
            timeout=15,
            verify=False,  # on loopback, without TLS
        )
        answer.raise_for_status()
        return answer.json()

    def stop(self) -> str:
        """Stop it as Ctrl-C does. Returns the fault that it did not stop in time, or ""."""
        if self.process is None or self.process.poll() is not None:
            return ""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return f"manage.py up did not stop within {STOP_TIMEOUT:.0f} s"
        return ""


@dataclass
class SecondMachine:
    """A worker and a web server in addition to the instance's, with other connections to its PostgreSQL and Redis.

    Attributes:
        ports: ports of the proxies to PostgreSQL and Redis.
        clock: file with the seconds by which the clocks of both programs are ahead; see `wrong_clock`.
        older: version to which the programs can be changed, and back.
        outdated: names of the programs that are of the older version from their next start on.
    """

    instance: Instance
    ports: tuple[int, int]
    clock: Path
    older: OlderVersion | None = None
    port: int = field(default_factory=free_port)
    running: dict[str, tuple[Program, subprocess.Popen[bytes]]] = field(default_factory=dict)
    outdated: set[str] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    def start(self) -> None:
        """Start both programs. Call it from the main thread, which they must not outlive."""
        for program in (self._worker(), self._web()):
            self.running[program.name] = program, spawn(program)

    def _worker(self) -> Program:
        program = programs.worker(self._environment(), self._logs)
        older = self._get_version("second worker")
        argv = ["second@%h" if word == "worker@%h" else word for word in (older.worker if older else program.argv)]
        argv[argv.index("--concurrency") + 1] = "1"
        return self._second(program, "second worker", argv, older)

    def _web(self) -> Program:
        program = programs.web(LOOPBACK, self.port, self._environment(), self._logs)
        older = self._get_version("second web")
        argv = list(older.web if older else program.argv)
        argv[argv.index("--port") + 1] = str(self.port)
        return self._second(program, "second web", argv, older)

    def _get_version(self, name: str) -> OlderVersion | None:
        """Return the older version if the program is of that version; None for this version."""
        return self.older if name in self.outdated else None

    @property
    def _logs(self) -> Path:
        return self.instance.home / "log"

    def _environment(self) -> dict[str, str]:
        addresses = self.instance.addresses
        assert addresses is not None
        there = replace(addresses, postgres_port=self.ports[0], redis_port=self.ports[1])
        home = self.instance.home
        return self.instance.environment | {
            "DATABASE_URL": there.postgres(home).url(),
            "REDIS_URL": there.redis(home).url(),
            "ECHOSCOPE_MAX_RUNS": "1",
            "ECHOSCOPE_URL": self.url,
        }

    def _second(self, program: Program, name: str, argv: Sequence[str], older: OlderVersion | None) -> Program:
        """Return the program with another command, of a Python module, and the clock of this machine."""
        return replace(
            program,
            name=name,
            argv=[sys.executable, wrong_clock.__file__, str(self.clock), *argv[2:]],
            log=self._logs / f"{name.replace(' ', '-')}.log",
            folder=older.folder if older else ROOT,
        )

    def change_version(self, name: str) -> None:
        """Stop a program of one version so that `tend` starts the other version, as in a rolling upgrade."""
        self.outdated ^= {name}
        send_stop_signal(*self.running[name])

    def pid(self, name: str) -> int | None:
        """Return the process id of "second worker" or "second web", if it is running."""
        if name not in self.running:
            return None
        process = self.running[name][1]
        return process.pid if process.poll() is None else None

    def tend(self) -> None:
        """Restart dead programs, as an orchestrator does. Call it from the main thread."""
        for name, (_, process) in list(self.running.items()):
            if process.poll() is not None:
                kill_group(process.pid)
                program = self._web() if name == "second web" else self._worker()
                self.running[name] = program, spawn(program)

    def web_is_ready(self) -> bool:
        return programs.answers(LOOPBACK, self.port)

    def stop(self) -> None:
        for program, process in self.running.values():
            stop(program, process)
        self.running.clear()


def kill_leftovers(home: Path) -> list[str]:
    """Kill processes that still run in this data folder. Returns their command lines."""
    left = find_processes(home)
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return list(left.values())
