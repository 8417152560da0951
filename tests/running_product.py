"""The whole product as a user starts it: `manage.py up` in a temporary folder, with all its processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from tests import migrated_database
from tests.patience import SECONDS
from webapp.services.addresses import ROOT, free_port

T = TypeVar("T")


@dataclass
class LiveStack:
    """A running Echoscope. `login_url` logs in its first visitor; later ones use the password."""

    url: str
    login_url: str
    username: str
    password: str
    home: Path
    process: subprocess.Popen[str]

    def pid(self, program: str) -> int:
        """Process id of "PostgreSQL", "Redis", "Web", "Worker" or "Clock" at this moment."""
        return int(json.loads((self.home / "running.json").read_text())["programs"][program])

    def kill(self, program: str) -> int:
        """Kill -9 one program, which is restarted under another process id. Returns the killed id."""
        pid = self.pid(program)
        os.kill(pid, signal.SIGKILL)
        return pid

    def manage(self, *words: str, input: str | None = None) -> str:
        """Output of a management command run beside it. `manage("shell", input=code)` runs Python there."""
        env = clean_environment(self.home)
        argv = [sys.executable, "manage.py", *words]
        done = subprocess.run(argv, cwd=ROOT, env=env, input=input, capture_output=True, text=True, timeout=SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def logs(self) -> str:
        """The ends of all its logs, for the message of a failing test."""
        parts = [
            f"== {file.name}\n{file.read_text(errors='replace')[-2000:]}" for file in (self.home / "log").iterdir()
        ]
        return "\n".join(parts)


def clean_environment(home: Path) -> dict[str, str]:
    """This process's environment without the addresses that the tests' own settings use."""
    kept = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "REDIS_URL"}}
    return kept | {"ECHOSCOPE_DATA_DIR": str(home), "OMP_NUM_THREADS": "1"}


def start(home: Path, *words: str, extra: Mapping[str, str] | None = None) -> LiveStack:
    """Start `manage.py up` (or what `words` say) with `extra` variables and wait until it is ready."""
    home.mkdir(parents=True, exist_ok=True)
    env = clean_environment(home) | dict(extra or {}) | {"ECHOSCOPE_PORT": str(free_port()), "PYTHONUNBUFFERED": "1"}
    output = home / "terminal.txt"
    with output.open("w") as file:
        argv = [sys.executable, "manage.py", *(words or ("up",)), "--no-browser"]
        process = subprocess.Popen(
            argv,
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
    try:
        text = wait_for(lambda: _ready(output.read_text(), process), "Echoscope to start", output.read_text)
    except BaseException:
        end(process)
        raise
    found = {
        name: re.search(pattern, text)
        for name, pattern in {
            "url": r"Echoscope is at\s+(\S+)",
            "login": r"to log in:\s+(\S+)",
            "account": r"log in as (\S+) with the password (\S+)",
        }.items()
    }
    assert found["url"] is not None, text
    account = found["account"]
    return LiveStack(
        url=found["url"][1],
        login_url=found["login"][1] if found["login"] else "",
        username=account[1] if account else "",
        password=account[2] if account else "",
        home=home,
        process=process,
    )


def _ready(text: str, process: subprocess.Popen[str]) -> str:
    assert process.poll() is None, f"it ended instead:\n{text}"
    return text if "Ctrl-C stops everything" in text else ""


def stop(stack: LiveStack) -> None:
    """End it as Ctrl-C does."""
    end(stack.process)


def end(process: subprocess.Popen[str]) -> None:
    """End the supervisor as Ctrl-C does, by force if it does not."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def wait_for(look: Callable[[], T], what: str, explain: Callable[[], str] = str, patience: float = SECONDS) -> T:
    """Poll until `look` returns something. Fails with `explain()` after the timeout."""
    deadline = time.monotonic() + patience
    while not (found := look()):
        if time.monotonic() > deadline:
            pytest.fail(f"waited {patience:.0f} s for {what}\n{explain()}")
        time.sleep(0.1)
    return found


@pytest.fixture(scope="session")
def live_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStack]:
    """One running Echoscope for all tests that only use it. Tests that kill its processes start their own."""
    home = tmp_path_factory.mktemp("live")
    migrated_database.prepare(home)
    stack = start(home)
    yield stack
    stop(stack)
