"""Client of MCP servers over stdio: JSON-RPC 2.0, one message per line, tools only.

It implements the part of the Model Context Protocol (revision 2025-06-18) that tools need, with time limits, and needs
no further package. A request of the server is answered, so that it does not wait: `ping` by an empty result, others by
an error, since nothing else was offered at the start.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from envs.base import ToolSpec
from envs.tools.tool import Tool, ToolError

PROTOCOL = "2025-06-18"
MAX_MESSAGE = 16 * 2**20
"""Maximum size of a message in bytes."""
MAX_TOOLS = 200
_MAX_PAGES = 50
_METHOD_NOT_FOUND = -32601


class McpError(RuntimeError):
    """The server cannot be started, has ended, does not answer, or breaks the protocol. The message says which."""


class McpConnection:
    """A running server. It is ended by `close`, and at the latest when its input closes with this process.

    Args:
        command: program and arguments.
        timeout: seconds for the answer to a request.
        start_timeout: seconds for the start.
    Raises:
        McpError: it cannot be started or does not speak the protocol.
    """

    def __init__(self, command: Sequence[str], timeout: float, start_timeout: float = 60.0) -> None:
        self.command, self.timeout = list(command), timeout
        self._buffer, self._number = b"", 0
        try:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError as error:
            raise McpError(f"the MCP server {self.command[0]!r} cannot be started: {error.strerror}") from None
        client = {"name": "echoscope", "version": "1"}
        started = self.request(
            "initialize", {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client}, start_timeout
        )
        if not isinstance(started.get("capabilities"), dict) or "tools" not in started["capabilities"]:
            self.close()
            raise McpError(f"the MCP server {self.command[0]!r} offers no tools")
        self._send({"method": "notifications/initialized"})

    def request(self, method: str, params: dict[str, Any], timeout: float | None = None) -> dict[str, Any]:
        """The result of a request. Raises ToolError for an error of the server, McpError for everything else."""
        self._number += 1
        number, timeout = self._number, timeout or self.timeout
        deadline = time.monotonic() + timeout
        self._send({"id": number, "method": method, "params": params})
        while True:
            message = self._receive(deadline, f"{method} within {timeout:g} s")
            if "method" in message:
                self._answer(message)
            elif message.get("id") == number:
                break
        if "error" in message:
            error = message["error"]
            raise ToolError(str(error.get("message", error) if isinstance(error, dict) else error)[:1000])
        result = message.get("result")
        if not isinstance(result, dict):
            raise McpError(f"the MCP server answered {method} without a result")
        return result

    def tools(self, only: Sequence[str] = ()) -> list[Tool]:
        """The server's tools, or those with these names. Raises McpError for an unknown or unusable one."""
        specs: list[ToolSpec] = []
        cursor: Any = None
        for _ in range(_MAX_PAGES):
            page = self.request("tools/list", {} if cursor is None else {"cursor": cursor})
            specs += [_spec(entry) for entry in page.get("tools", [])]
            if (cursor := page.get("nextCursor")) is None:
                break
        by_name = {spec.name: spec for spec in specs[:MAX_TOOLS]}
        for name in only:
            if name not in by_name:
                raise McpError(f"the MCP server has no tool {name!r}: choose among {', '.join(by_name) or 'none'}")
        return [Tool(by_name[name], self._caller(name)) for name in only or by_name]

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        """The text of a call's result. Raises ToolError if the tool reports an error."""
        result = self.request("tools/call", {"name": name, "arguments": arguments})
        content = result.get("content", [])
        parts = [_text(part) for part in content] if isinstance(content, list) else []
        if not parts and "structuredContent" in result:
            parts = [json.dumps(result["structuredContent"], ensure_ascii=False)]
        if result.get("isError"):
            raise ToolError("\n".join(parts) or "the tool failed")
        return "\n".join(parts)

    def close(self) -> None:
        """End the server: close its input, then terminate and kill it if it stays."""
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

    @property
    def running(self) -> bool:
        """Whether the server has not ended."""
        return self._process.poll() is None

    def _caller(self, name: str) -> Any:
        return lambda **arguments: self.call(name, arguments)

    def _answer(self, message: dict[str, Any]) -> None:
        """Answer a request of the server; notifications need no answer."""
        if (number := message.get("id")) is None:
            return
        if message["method"] == "ping":
            self._send({"id": number, "result": {}})
        else:
            error = {"code": _METHOD_NOT_FOUND, "message": "not offered by this client"}
            self._send({"id": number, "error": error})

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        line = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode("utf-8", "replace")
        try:
            self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError):
            raise McpError(self._ended()) from None

    def _receive(self, deadline: float, expected: str) -> dict[str, Any]:
        """The next message. Lines that are no JSON object, such as stray prints of a server, are skipped."""
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
            self._fill(deadline, expected)

    def _fill(self, deadline: float, expected: str) -> None:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        readable, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        if not readable:
            self.close()
            raise McpError(f"the MCP server did not answer {expected}")
        part = os.read(descriptor, 65_536)
        if not part:
            raise McpError(self._ended())
        self._buffer += part
        if len(self._buffer) > MAX_MESSAGE:
            self.close()
            raise McpError(f"the MCP server sent a message of more than {MAX_MESSAGE >> 20} MiB")

    def _ended(self) -> str:
        self.close()
        return f"the MCP server {self.command[0]!r} has ended with status {self._process.returncode}"


def _spec(entry: Any) -> ToolSpec:
    if not isinstance(entry, dict):
        raise McpError("the MCP server listed a tool that is no object")
    schema = entry.get("inputSchema")
    try:
        return ToolSpec(
            name=entry.get("name"),
            description=str(entry.get("description") or entry.get("title") or ""),
            parameters=schema if isinstance(schema, dict) else {"type": "object"},
        )
    except ValidationError:
        name = str(entry.get("name"))[:100]
        raise McpError(
            f"models cannot call the MCP server's tool {name!r}: a name has letters, digits, _ . and -"
        ) from None


def _text(part: Any) -> str:
    if not isinstance(part, dict):
        return ""
    if part.get("type") == "text":
        return str(part.get("text", ""))
    resource = part.get("resource")
    if isinstance(resource, dict) and isinstance(resource.get("text"), str):
        return str(resource["text"])
    return f"[{part.get('type', 'content')}]"
