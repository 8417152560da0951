"""Start and stop of the whole site, behind `make up`, `make dev` and `make demo`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import webbrowser
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bootstrap.bundle import bundle
from bootstrap.progress import step
from webapp.services import addresses, programs
from webapp.services.child_process import NotReady, tail
from webapp.services.lock import Lock
from webapp.services.process_supervisor import Outage, ProcessSupervisor
from webapp.services.unprivileged_user import child_setup
from webapp.worker.sandbox import trainer_sandbox

FIRST_PORT = 8000
SPACE_FOR_FIRST_START = 200_000_000
"""Bytes for a new database with its write-ahead log, static files and the first run."""
SPACE_TO_START = 50_000_000
"""Bytes for a database that exists: a segment of its write-ahead log, and logs."""
SPACE_TO_WARN = 200_000_000
SPACE_INTERVAL = 15.0


class StartupError(RuntimeError):
    """The site cannot start until the operator fixes the problem named by the message."""


@dataclass(frozen=True)
class Options:
    """Options of a start.

    Attributes:
        demo: launch the demo run, or resume it.
        open_browser: open the page where there is a display.
        reload: restart the web server when its files change.
    """

    demo: bool
    open_browser: bool
    reload: bool = False


def run(options: Options) -> int:
    """Start all programs, supervise them until a signal arrives, and stop them. Returns the exit code."""
    started = time.monotonic()
    home = addresses.home_folder()
    lock = Lock(home)
    lock.take()
    check_space(home)
    host = os.environ.get("ECHOSCOPE_HOST", addresses.LOOPBACK)
    port = choose_port(os.environ.get("ECHOSCOPE_PORT", ""), host)
    url = f"http://{'localhost' if host in {addresses.LOOPBACK, '0.0.0.0'} else host}:{port}"
    supervisor = ProcessSupervisor(log_line)
    supervisor.install_signal_handlers()
    try:
        if not options.reload:
            bundle_scripts()
        env = start_servers(supervisor, home)
        facts = start_site(supervisor, home, host, port, env, options)
        print(f"  Ready after {time.monotonic() - started:.1f} s.\n", flush=True)
        announce(url, facts, home, options)
        supervisor.watch(ProgramMonitor(home, lock, url, supervisor.outages))
        print(flush=True)
    except NotReady as error:
        if not supervisor.stopping:
            raise StartupError(f"{error}\nAll programs were stopped again; your data is kept.") from error
    finally:
        with step("Stopping; a training run writes its checkpoint first"):
            supervisor.stop()
    print(f"  Stopped. Your data is kept in {home}; the same command continues with it.", flush=True)
    return 0


def bundle_scripts() -> None:
    """Bundle the scripts of the pages. The site also starts where the account may not write to its folder."""
    try:
        bundle()
    except OSError as error:
        print(f"  The scripts of the pages were not bundled; pages load them as they are: {error}", flush=True)


def start_servers(supervisor: ProcessSupervisor, home: Path) -> dict[str, str]:
    """Start PostgreSQL and Redis unless their URLs are set. Returns environment variables for the other programs."""
    chosen = addresses.choose(home)
    postgres, redis, logs = chosen.postgres(home), chosen.redis(home), home / "log"
    env = {"ECHOSCOPE_DATA_DIR": str(home), "DATABASE_URL": postgres.url(), "REDIS_URL": redis.url()}
    external = {name: os.environ[name] for name in ("DATABASE_URL", "REDIS_URL") if os.environ.get(name)}
    members = []
    if "DATABASE_URL" not in external:
        if not (postgres.data / "PG_VERSION").exists():
            with step("Creating the database"):
                postgres.initialise()
        members.append(supervisor.start(postgres.program(logs / "postgres.log")))
    if "REDIS_URL" not in external:
        members.append(supervisor.start(redis.program(logs / "redis.log")))
    if members:
        with step(f"Starting {' and '.join(member.program.name for member in members)}"):
            supervisor.wait(*members)
    if "DATABASE_URL" not in external:
        postgres.create_database()
    return env | external


def start_site(
    supervisor: ProcessSupervisor, home: Path, host: str, port: int, env: dict[str, str], options: Options
) -> dict[str, str]:
    """Migrate the database, start the programs, and prepare the demo. Returns the facts printed by `prepare`."""
    argv = [sys.executable, "manage.py", "prepare", *(["--demo"] if options.demo else [])]
    if sys.stdout.isatty():  # elsewhere, as in a service's log, only a new account is announced
        argv.append("--account")
    log = home / "log" / "prepare.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    members = []
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=addresses.ROOT,
            env={**os.environ, **env},
            start_new_session=True,
            preexec_fn=child_setup(None, signal.SIGTERM),
        )
        assert process.stdout is not None
        with step("Bringing the database up to date"):
            migrated = process.stdout.readline()
        if migrated:
            members = [
                supervisor.start(program)
                for program in programs.applications(host, port, env, home / "log", reload=options.reload)
            ]
        rest = process.stdout.read()
    if process.wait() or not rest:
        raise StartupError(f"The database could not be brought up to date. Nothing was lost.\n{tail(log, 20)}")
    with step("Starting the web pages and the worker"):
        supervisor.wait(*members)
    facts: dict[str, str] = json.loads(rest)
    return facts


def choose_port(requested: str, host: str) -> int:
    """Return the requested port, or the first free port from 8000. Raises StartupError if none is available."""
    if not requested:
        port = addresses.next_free(FIRST_PORT, host)
        if port is None:
            raise StartupError(
                f"Every port from {FIRST_PORT} to {FIRST_PORT + 49} is taken. Choose another: ECHOSCOPE_PORT=9000."
            )
        if port != FIRST_PORT:
            print(f"  Port {FIRST_PORT} is taken by another program; using {port}.", flush=True)
        return port
    if not requested.isdecimal() or not 0 < int(requested) < 65536:
        raise StartupError(f"ECHOSCOPE_PORT must be a number from 1 to 65535, not {requested!r}.")
    if not addresses.is_free(int(requested), host):
        other = addresses.next_free(int(requested) + 1, host)
        raise StartupError(
            f"Port {requested} (ECHOSCOPE_PORT) is taken by another program or not allowed. Nothing was started. "
            f"Stop that program, or choose another port, for example ECHOSCOPE_PORT={other}."
        )
    return int(requested)


def check_space(home: Path) -> None:
    """Raise StartupError if the disk is nearly full: the database would stop within minutes."""
    free = shutil.disk_usage(home).free
    needed = SPACE_TO_START if (home / "static").exists() else SPACE_FOR_FIRST_START
    if free < needed:
        raise StartupError(
            f"The disk that holds {home} has only {free / 1e6:.0f} MB free; {needed / 1e6:.0f} MB are needed "
            "to start. Nothing was started or changed. Free some space, or put the data elsewhere: "
            "ECHOSCOPE_DATA_DIR=/larger/disk."
        )


class ProgramMonitor:
    """Records programs' process ids and outages in the lock's note when they change; warns of a full disk.

    Pages read the outages there (webapp/operations/site_status.py).
    """

    def __init__(self, home: Path, lock: Lock, url: str, outages: Callable[[], list[Outage]]) -> None:
        self._home, self._lock, self._url, self._outages = home, lock, url, outages
        self._recorded: dict[str, Any] = {}
        self._next = time.monotonic() + SPACE_INTERVAL
        self._warned = self._unwritten = False

    def __call__(self, pids: dict[str, int]) -> None:
        due = time.monotonic() >= self._next
        facts = {"programs": pids, "outages": [asdict(outage) for outage in self._outages()]}
        if facts != self._recorded or (due and self._unwritten):
            self._recorded = facts
            self._record()
        if due:
            self._next = time.monotonic() + SPACE_INTERVAL
            self._check_space()

    def _record(self) -> None:
        error = self._lock.note(url=self._url, **self._recorded)
        if error is not None and not self._unwritten:
            log_line(f"The process ids cannot be recorded in {self._home}: {error.strerror}. Everything goes on.")
        self._unwritten = error is not None

    def _check_space(self) -> None:
        free = shutil.disk_usage(self._home).free
        if free < SPACE_TO_WARN and not self._warned:
            log_line(
                f"The disk that holds {self._home} has only {free / 1e6:.0f} MB left. Free some space soon: on a full "
                "disk, runs fail and PostgreSQL stops until there is space. Stored data is kept."
            )
        self._warned = free < SPACE_TO_WARN


def log_line(text: str) -> None:
    """Print a line with the time of day. A closed terminal must not interrupt the shutdown."""
    try:
        print(f"  {time.strftime('%H:%M:%S')}  {text}", flush=True)
    except OSError:
        pass


def announce(url: str, facts: dict[str, str], home: Path, options: Options) -> None:
    """Print the address, and open it if there is a display."""
    first = url + facts.get("login", facts.get("page", "/"))
    print(f"  Echoscope is at  {url}")
    if "login" in facts:
        print(f"  Open this once to log in:  {first}")
    if "username" in facts:
        print(f"  or log in as {facts['username']} with the password {facts['password']}")
    for weakness in trainer_sandbox.weaknesses():
        print(f"  {weakness}")
    print(f"  Logs are in {home / 'log'}. Ctrl-C stops everything; nothing is lost.\n", flush=True)
    if options.open_browser and has_display():
        webbrowser.open(first)


def has_display() -> bool:
    """Return True if a browser window can be opened."""
    if os.environ.get("CI") or not sys.stdout.isatty():
        return False
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
