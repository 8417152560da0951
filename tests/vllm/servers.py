"""Real vLLM servers for tests, each in its own process group, so that they can be killed and restarted."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT = 900.0  # generous: a busy machine is no failure


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _end_with_the_tests() -> None:
    """Terminate the server when the tests are killed: PR_SET_PDEATHSIG, Linux only."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


class Serving:
    """`python -m trainer serve-vllm pocket` on a free port."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.port, self.options = free_port(), options
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / f"serve-{self.port}.log"
        self.start()

    def start(self) -> None:
        words = [sys.executable, "-m", "trainer", "serve-vllm", "pocket", "--cpu", "--port", str(self.port)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*words, *self.options],
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_end_with_the_tests,
            )

    def wait(self) -> None:
        """Wait until it is healthy; raises AssertionError with the end of its log if it never is."""
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if httpx.get(f"{self.url}/health", timeout=5).is_success:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.5)
        raise AssertionError(f"the server did not start:\n{self.log.read_text()[-3000:]}")

    def kill(self) -> None:
        """Kill it at once, as by a power failure: open requests fail."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[str]:
    """Base URL of the OpenAI-compatible API of a server that runs in this context."""
    started = Serving(folder, *options)
    try:
        started.wait()
        yield f"{started.url}/v1"
    finally:
        if started.process.poll() is None:
            started.kill()
