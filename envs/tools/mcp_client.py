"""Client of MCP servers: JSON-RPC 2.0, tools only, over a transport (`mcp_stdio`, `mcp_http`).

It implements the part of the Model Context Protocol (revision 2025-06-18) that tools need, with time limits, and needs
no package for it. Requests of the server are answered, so that it does not wait: `ping` with an empty result, others
with an error, since nothing else was offered at the start.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from contextlib import closing
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
    """The server cannot be started or reached, has ended, does not answer, or breaks the protocol.

    The message says which.
    """


class SessionExpiredError(McpError):
    """The server no longer knows the session; a new connection begins a new session."""


class McpTransport(ABC):
    """A connection to a server for messages in both directions."""

    server: str
    """Name of the server in errors."""
    version = ""
    """Revision of the protocol in the server's answer; empty before the start."""

    @abstractmethod
    def send(self, message: dict[str, Any]) -> None:
        """Send a notification, or the answer to a request of the server. Raises McpError."""

    @abstractmethod
    def exchange(self, request: dict[str, Any], timeout: float) -> Generator[dict[str, Any], None, None]:
        """Send a request and yield the messages of the server from then on, until the generator is closed.

        Raises:
            McpError: the server cannot be reached, has ended, or sends nothing more within `timeout` seconds.
        """

    @abstractmethod
    def close(self) -> None:
        """End the session with the server."""

    @property
    @abstractmethod
    def running(self) -> bool:
        """True until the session has ended."""


def encoded(message: dict[str, Any]) -> bytes:
    """Return a message as one line of JSON. Lone surrogates, which UTF-8 cannot encode, become a ?."""
    return json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode("utf-8", "replace")


def no_answer(server: str, request: dict[str, Any], timeout: float) -> McpError:
    """Return the error for a request that was not answered in time."""
    return McpError(f"{server} did not answer {request['method']} within {timeout:g} s")


class McpConnection:
    """A session with a server, which `close` ends.

    Args:
        transport: transport to the server.
        timeout: seconds for the answer to a request.
        start_timeout: seconds for the start.
    Raises:
        McpError: the server cannot be reached or does not speak the protocol.
    """

    def __init__(self, transport: McpTransport, timeout: float, start_timeout: float = 60.0) -> None:
        self.transport, self.timeout = transport, timeout
        self._number = 0
        try:
            self._start(start_timeout)
        except McpError:
            self.close()
            raise

    def _start(self, timeout: float) -> None:
        client = {"name": "echoscope", "version": "1"}
        params = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client}
        started = self._required("initialize", params, timeout)
        if not isinstance(started.get("capabilities"), dict) or "tools" not in started["capabilities"]:
            raise McpError(f"{self.transport.server} offers no tools")
        self.transport.version = str(started.get("protocolVersion") or PROTOCOL)
        self.transport.send({"method": "notifications/initialized"})

    def request(self, method: str, params: dict[str, Any], timeout: float | None = None) -> dict[str, Any]:
        """Return the result of a request. Raises ToolError for an error of the server, McpError for everything else."""
        self._number += 1
        number = self._number
        request = {"id": number, "method": method, "params": params}
        with closing(self.transport.exchange(request, timeout or self.timeout)) as messages:
            for message in messages:
                if "method" in message:
                    self._answer(message)
                elif message.get("id") == number:
                    break
            else:
                self.close()
                raise McpError(f"{self.transport.server} ended its response to {method} without a result")
        if "error" in message:
            error = message["error"]
            raise ToolError(str(error.get("message", error) if isinstance(error, dict) else error)[:1000])
        result = message.get("result")
        if not isinstance(result, dict):
            raise McpError(f"{self.transport.server} answered {method} without a result")
        return result

    def _required(self, method: str, params: dict[str, Any], timeout: float | None = None) -> dict[str, Any]:
        """Return the result, as `request`, for requests not made for a tool: every error is an McpError."""
        try:
            return self.request(method, params, timeout)
        except ToolError as error:
            raise McpError(f"{self.transport.server} refused {method}: {error}") from None

    def tools(self, only: Sequence[str] = ()) -> list[Tool]:
        """Return the server's tools, or the tools with these names. Raises McpError if one is unknown or unusable."""
        specs: list[ToolSpec] = []
        cursor: Any = None
        for _ in range(_MAX_PAGES):
            page = self._required("tools/list", {} if cursor is None else {"cursor": cursor})
            specs += [_spec(entry) for entry in page.get("tools", [])]
            if (cursor := page.get("nextCursor")) is None:
                break
        by_name = {spec.name: spec for spec in specs[:MAX_TOOLS]}
        for name in only:
            if name not in by_name:
                raise McpError(f"the MCP server has no tool {name!r}: choose among {', '.join(by_name) or 'none'}")
        return [Tool(by_name[name], self._caller(name)) for name in only or by_name]

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Return the text of a call's result. Raises ToolError if the tool reports an error."""
        result = self.request("tools/call", {"name": name, "arguments": arguments})
        content = result.get("content", [])
        parts = [_text(part) for part in content] if isinstance(content, list) else []
        if not parts and "structuredContent" in result:
            parts = [json.dumps(result["structuredContent"], ensure_ascii=False)]
        if result.get("isError"):
            raise ToolError("\n".join(parts) or "the tool failed")
        return "\n".join(parts)

    def close(self) -> None:
        """End the session."""
        self.transport.close()

    @property
    def running(self) -> bool:
        """True until the session has ended."""
        return self.transport.running

    def _caller(self, name: str) -> Any:
        return lambda **arguments: self.call(name, arguments)

    def _answer(self, message: dict[str, Any]) -> None:
        """Answer a request of the server; notifications need no answer."""
        if (number := message.get("id")) is None:
            return
        if message["method"] == "ping":
            self.transport.send({"id": number, "result": {}})
        else:
            error = {"code": _METHOD_NOT_FOUND, "message": "not offered by this client"}
            self.transport.send({"id": number, "error": error})


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
