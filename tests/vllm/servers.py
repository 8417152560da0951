"""Servers of the tests: real ones, each in a process group of its own, that can be killed and started again."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 900.0  # a busy machine is no failure


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _end_with_the_tests() -> None:
    """Should the tests be killed, their servers are told to end: PR_SET_PDEATHSIG, which Linux alone has."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


class Serving:
    """`python -m trainer serve-vllm pocket` on a port of its own."""

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
        """Until it answers; raises AssertionError with the end of its log if it never does."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if httpx.get(f"{self.url}/health", timeout=5).is_success:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.5)
        raise AssertionError(f"the server did not start:\n{self.log.read_text()[-3000:]}")

    def kill(self) -> None:
        """At once, as a machine that loses power: no request is answered any more."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
