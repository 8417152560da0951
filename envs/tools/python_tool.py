"""Python interpreter as a tool: each call runs in a new process with limits, which `envs.tools.python_child` sets."""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

from envs.tools import python_child
from envs.tools.tool import Tool, ToolError, text_tool

_CHILD = Path(python_child.__file__)
_START_TIMEOUT = 8.0
"""Seconds for the start of the process, which do not count as time of the code."""


class PythonInterpreter:
    """Runs code without network, files and other processes; nothing is kept from one call to the next.

    Args:
        time_limit: seconds that the code may run.
        memory: MiB that it may use.
        max_output: characters of the output that are kept.
    """

    def __init__(self, time_limit: float, memory: int, max_output: int) -> None:
        self.time_limit, self.memory, self.max_output = time_limit, memory, max_output

    def tool(self) -> Tool:
        """Return the tool `python(code)`."""
        about = (
            "Run Python code and return what it prints. Each call starts anew; the standard library's mathematics and "
            "text modules are available, files and network are not."
        )
        return text_tool("python", about, "code", "A program that prints its result.", self.run)

    def run(self, code: str) -> str:
        """Return the output of the code, with the value of a last expression.

        Raises:
            ToolError: the code raised an exception, or exceeded a limit.
            RuntimeError: this machine cannot isolate the process.
        """
        limits = [str(self.memory * 2**20), str(math.ceil(self.time_limit) + 1)]
        process = subprocess.Popen(
            [sys.executable, "-S", "-s", "-P", "-B", str(_CHILD), *limits],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PYTHONHASHSEED": "0", "PYTHONIOENCODING": "utf-8:replace"},
            cwd="/",
        )
        try:
            output, ended = self._communicate(process, code.encode("utf-8", "replace"))
            status = process.wait(self.time_limit if ended else 0)  # code may close its output and continue
        except subprocess.TimeoutExpired:
            ended, status = False, 0
        finally:
            process.kill()
            process.wait()
        return self._result(output, status, ended=ended)

    def _communicate(self, process: subprocess.Popen[bytes], code: bytes) -> tuple[bytes, bool]:
        """Write the code and read the output, within the limits. Returns False if time or output exceeded its limit."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(code)
            process.stdin.close()
        except BrokenPipeError:
            pass
        with process.stdout:
            first = _read(process.stdout, 1, time.monotonic() + _START_TIMEOUT)
            if first[0] != python_child.READY:
                raise RuntimeError(
                    "the Python tool keeps code from network and files by seccomp, which this machine does not offer: "
                    "it needs Linux on x86-64 or 64-bit ARM"
                )
            return _read(process.stdout, 4 * self.max_output, time.monotonic() + self.time_limit)

    def _result(self, output: bytes, status: int, *, ended: bool) -> str:
        text = output.decode("utf-8", "replace").strip()
        if len(output) >= 4 * self.max_output:
            return text
        if not ended:
            raise ToolError(f"the code did not end within {self.time_limit:g} s")
        if status == 1:
            raise ToolError(text or "the code failed")
        if status < 0:
            raise ToolError(f"the system ended the code ({signal.Signals(-status).name})")
        return text or "(no output: print the result)"


def _read(stream: IO[bytes], size: int, deadline: float) -> tuple[bytes, bool]:
    """Read up to `size` bytes, until the end or the deadline (monotonic). Returns False unless the end was reached."""
    output = b""
    while len(output) < size:
        readable, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
        if not readable:
            return output, False
        if not (part := os.read(stream.fileno(), min(65_536, size - len(output)))):
            return output, True
        output += part
    return output, False
