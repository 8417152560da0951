"""MCP over stdio: the server is a child process, and each message a line of JSON."""

from __future__ import annotations

import json
import os
import select
import subprocess
import threading
import time
from collections.abc import Generator, Sequence
from typing import Any

from envs.tools.mcp_client import MAX_MESSAGE, McpError, McpTransport, encoded, no_answer

MAX_ERRORS = 4096
"""Bytes of the end of a server's standard error that are kept for messages."""


class StdioTransport(McpTransport):
    """A running server. `close` ends it; at the latest it ends when this process does, which closes its input.

    Args:
        command: program and arguments.
    Raises:
        McpError: it cannot be started.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.command = list(command)
        self.server = f"the MCP server {self.command[0]!r}"
        self._buffer = b""
        try:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        except OSError as error:
            raise McpError(f"{self.server} cannot be started: {error.strerror}") from None
        self._errors = b""
        self._error_reader = threading.Thread(target=self._read_errors, name="mcp-errors", daemon=True)
        self._error_reader.start()

    def send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(encoded(message) + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError):
            raise McpError(self._ended()) from None

    def exchange(self, request: dict[str, Any], timeout: float) -> Generator[dict[str, Any], None, None]:
        deadline = time.monotonic() + timeout
        self.send(request)
        while True:
            try:
                yield self._receive(deadline)
            except TimeoutError:
                self.close()
                raise no_answer(self.server, request, timeout) from None

    def close(self) -> None:
        """Close the input of the server, then terminate and kill it if it stays."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    pass
        for end in (self._process.terminate, self._process.kill):
            try:
                self._process.wait(1.0)
                return
            except subprocess.TimeoutExpired:
                end()
        self._process.wait()

    def _read_errors(self) -> None:
        """Keep the end of the server's error output, since a full pipe would stop the server."""
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            while part := os.read(stream.fileno(), 65_536):
                self._errors = (self._errors + part)[-MAX_ERRORS:]

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def _receive(self, deadline: float) -> dict[str, Any]:
        """Return the next message. Lines that are not a JSON object, such as stray prints of a server, are skipped."""
        while True:
            line, mark, rest = self._buffer.partition(b"\n")
            if mark:
                self._buffer = rest
                try:
                    message = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(message, dict):
                    return message
                continue
            self._fill(deadline)

    def _fill(self, deadline: float) -> None:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        readable, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        if not readable:
            raise TimeoutError
        part = os.read(descriptor, 65_536)
        if not part:
            raise McpError(self._ended())
        self._buffer += part
        if len(self._buffer) > MAX_MESSAGE:
            self.close()
            raise McpError(f"{self.server} sent a message of more than {MAX_MESSAGE >> 20} MiB")

    def _ended(self) -> str:
        self.close()
        self._error_reader.join(1.0)  # a process that the server started may keep the pipe open
        lines = [line.strip() for line in self._errors.decode(errors="replace").splitlines()]
        last = next((line for line in reversed(lines) if line), "")
        ended = f"{self.server} has ended with status {self._process.returncode}"
        return f"{ended}: {last:.300}" if last else ended
