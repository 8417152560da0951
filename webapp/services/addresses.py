"""Ports and passwords of the embedded servers: chosen once, stored in services.json of the data folder.

Settings read `environment()`, so that `manage.py shell` finds a running Echoscope.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from webapp.core import env
from webapp.core.private_files import DataFolderError
from webapp.services.postgres import Postgres
from webapp.services.redis import Redis

ROOT = Path(__file__).resolve().parents[2]
LOOPBACK = "127.0.0.1"
FILE = "services.json"
SERVER_PORTS = range(20000, 32000)

logger = logging.getLogger(__name__)


class AddressesDamaged(DataFolderError):
    """The stored addresses cannot be read. The message says what to do."""

    def __init__(self, home: Path) -> None:
        RuntimeError.__init__(
            self,
            f"{home / FILE} is damaged: it has the passwords of the embedded servers, without which their data cannot "
            "be opened. Nothing was started. Put back a copy of that file, or restore a backup of the site to another "
            "folder: ECHOSCOPE_DATA_DIR=/another/folder.",
        )


@dataclass(frozen=True)
class Addresses:
    """Ports and passwords of the embedded servers of one data folder."""

    postgres_port: int
    postgres_password: str
    redis_port: int
    redis_password: str

    def postgres(self, home: Path) -> Postgres:
        return Postgres(home / "postgres", self.postgres_port, self.postgres_password)

    def redis(self, home: Path) -> Redis:
        return Redis(home / "redis", self.redis_port, self.redis_password)


def home_folder() -> Path:
    """Return the data folder: ECHOSCOPE_DATA_DIR, or var/ in the checkout. Raises DataFolderError."""
    named = Path(env.variable("ECHOSCOPE_DATA_DIR") or ROOT / "var")
    try:
        return named.resolve()
    except (OSError, RuntimeError) as error:  # a circle of symbolic links, an OSError from Python 3.13 on
        raise DataFolderError(named, OSError(errno.ELOOP, os.strerror(errno.ELOOP))) from error


def stored_addresses(home: Path) -> Addresses | None:
    """Return the stored addresses of the data folder, if any. Raises DataFolderError if they cannot be read."""
    try:
        return Addresses(**json.loads((home / FILE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataFolderError(home, error) from error
    except (ValueError, TypeError) as error:
        raise AddressesDamaged(home) from error


def choose(home: Path) -> Addresses:
    """Load or create the addresses, replace ports that are now taken, and store the result.

    On a full disk, replaced ports are used but not stored: other commands find them after the next start.

    Raises:
        DataFolderError: the first addresses cannot be stored.
    """
    stored = stored_addresses(home) or Addresses(0, secrets.token_urlsafe(24), 0, secrets.token_urlsafe(24))
    chosen = replace(stored, postgres_port=usable_port(stored.postgres_port), redis_port=usable_port(stored.redis_port))
    if chosen != stored or not (home / FILE).exists():
        try:
            store(home, chosen)
        except OSError as error:
            if not (home / FILE).exists():
                raise DataFolderError(home, error) from error
            logger.warning("The new ports of the servers cannot be stored in %s: %s.", home / FILE, error.strerror)
    return chosen


def store(home: Path, addresses: Addresses) -> None:
    """Write services.json, readable only for its owner. Raises OSError."""
    home.mkdir(parents=True, exist_ok=True)
    new = (home / FILE).with_suffix(".new")
    new.touch(mode=0o600)
    new.write_text(json.dumps(asdict(addresses), indent=1), encoding="utf-8")
    new.replace(home / FILE)


def environment(home: Path) -> dict[str, str]:
    """Return DATABASE_URL and REDIS_URL from the process environment, or for the embedded servers."""
    stored = stored_addresses(home)
    urls = {"DATABASE_URL": stored.postgres(home).url(), "REDIS_URL": stored.redis(home).url()} if stored else {}
    return {name: os.environ.get(name) or url for name, url in urls.items()}


def usable_port(preferred: int = 0) -> int:
    """Return `preferred` if it is free on the loopback interface, else any free port."""
    return preferred if preferred and is_free(preferred) else free_port()


def free_port(tries: int = 200) -> int:
    """Return a free port on the loopback interface, if possible one that outgoing connections never get.

    Linux takes ports of outgoing connections from 32768 upwards, macOS and Windows from 49152: any program may take
    such a port between two starts of a server, which then cannot listen again.
    """
    candidates = (secrets.choice(SERVER_PORTS) for _ in range(tries))
    if (port := next(filter(is_free, candidates), None)) is not None:
        return port
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Return True if a server could listen on the port now."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def next_free(first: int, host: str = LOOPBACK) -> int | None:
    """Return the first free port from `first` upwards; None if there is none among the next 50."""
    candidates: Iterator[int] = (port for port in range(first, min(first + 50, 65536)) if is_free(port, host))
    return next(candidates, None)
