"""Questions that the tools of an MCP server answer: an example server's, or your own."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from envs.base import EnvSettings
from envs.support.addresses import checked_address
from envs.support.rng import SeededRng
from envs.text_roles import TextRole
from envs.tools import mcp_example_server
from envs.tools.calls import ToolCall
from envs.tools.mcp_client import McpConnection, McpError, SessionExpiredError
from envs.tools.mcp_example_server import PRICES
from envs.tools.mcp_http import EXAMPLE, HttpTransport
from envs.tools.mcp_stdio import StdioTransport
from envs.tools.tool import Tool
from envs.tools.tool_env import Task, ToolEnv, ToolSettings, read_tasks


class McpSettings(ToolSettings):
    """Settings of server and questions."""

    command: Annotated[str, TextRole.COMMAND] = Field(
        "",
        max_length=2000,
        description="Command that starts the server on stdio; without command and url, the example server, a shop.",
    )
    url: Annotated[str, TextRole.URL] = Field(
        "",
        max_length=300,
        description=f"Address of a server over streamable HTTP, as in {EXAMPLE}, in place of a command.",
    )
    tools: Annotated[list[str], TextRole.PLAIN] = Field(
        [], max_length=100, description="Names of the server's tools to offer; empty = all."
    )
    timeout: float = Field(5.0, ge=0.1, le=60, description="Seconds for the answer to a call.")
    questions: Annotated[str | None, TextRole.PATH] = Field(
        None,
        max_length=1000,
        description="File of questions, JSONL with the fields question and answer; required with a command or url.",
    )

    @field_validator("command")
    @classmethod
    def check_command(cls, value: str) -> str:
        """Require a command that a shell can split."""
        try:
            shlex.split(value)
        except ValueError as error:
            raise ValueError(f"cannot be split into words: {error}") from None
        return value.strip()

    @field_validator("url")
    @classmethod
    def check_url(cls, value: str) -> str:
        """Require the address of a server; a final slash is part of it."""
        return checked_address(value, example=EXAMPLE) if value.strip() else ""

    @model_validator(mode="after")
    def check_server(self) -> Self:
        """Require one server, and questions for it unless it is the example server, for which they are generated."""
        if self.command and self.url:
            raise ValueError("command and url name two servers: set one of them, and leave the other empty")
        if (self.command or self.url) and not self.questions:
            name = "command" if self.command else "url"
            raise ValueError(f"{name} needs questions: a file of questions that the server's tools answer")
        return self


_connections: dict[tuple[int, str, str, float], McpConnection] = {}
"""By process, command, address and time limit: environments of one process share a server. A sandboxed one has its own
server, or session with a server over HTTP."""


def connection_to(settings: McpSettings) -> McpConnection:
    """Return the connection of this process, opened if necessary. Raises McpError."""
    key = _key(settings)
    known = _connections.get(key)
    if known is None or not known.running:
        known = _connections[key] = _opened(settings)
    return known


def _key(settings: McpSettings) -> tuple[int, str, str, float]:
    return os.getpid(), settings.command, settings.url, settings.timeout


def _opened(settings: McpSettings) -> McpConnection:
    if settings.url:  # the server runs already: its start takes no longer than an answer
        return McpConnection(HttpTransport(settings.url, settings.timeout), settings.timeout, settings.timeout)
    words = shlex.split(settings.command) or [sys.executable, "-P", mcp_example_server.__file__]
    return McpConnection(StdioTransport(words), settings.timeout)


class ToolMCP(ToolEnv):
    """A question and the tools of an MCP server, which are known from the first reset on."""

    Settings: ClassVar[type[EnvSettings]] = McpSettings
    settings: McpSettings
    about: ClassVar[dict[str, str]] = {
        "name": "ToolMCP",
        "title": "Tools: MCP server",
        "summary": "Answer a question with the tools of an MCP server: a shop, or your own.",
        "instruction": "Answer the question in as few words as possible. The tools help.",
    }

    @classmethod
    def replay_problem(cls, settings: EnvSettings) -> str:
        assert isinstance(settings, McpSettings)
        own = settings.command or settings.url
        return "the tools of an MCP server may have effects, which calling them again would repeat" if own else ""

    def prepare(self) -> None:
        """Start the server: a sandbox process allows more time for it here than at a reset.

        If a server over HTTP is unavailable, the next reset tries again and reports an error.
        """
        with suppress(McpError) if self.settings.url else nullcontext():
            connection_to(self.settings)

    def make_tools(self) -> Sequence[Tool]:
        return []

    def draw(self, rng: SeededRng) -> Task:
        if self.settings.questions:
            return rng.choice(read_tasks(Path(self.settings.questions)))
        names = rng.sample(list(PRICES), 2)
        counts = [2 + rng.below(8) for _ in names]
        wishes = " and ".join(f"{count} {name}s" for count, name in zip(counts, names, strict=True))
        total = sum(count * PRICES[name] for count, name in zip(counts, names, strict=True))
        calls = tuple(ToolCall("price", {"item": name}) for name in names)
        return Task(f"How many coins do {wishes} cost?", str(total), calls)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        tools = _Tools(self.settings)
        try:
            self._offer(tools.listed())
        except SessionExpiredError:  # between two episodes, it contains nothing: another one begins
            self._offer(tools.listed())
        return super().reset(seed=seed, options=options)

    def close(self) -> None:
        """End the connection that environments of this process share; the next reset reopens it."""
        if (known := _connections.pop(_key(self.settings), None)) is not None:
            known.close()


class _Tools:
    """The server's tools, fetched anew at each call, so that a copied environment needs no server of its own."""

    def __init__(self, settings: McpSettings) -> None:
        self.settings = settings

    def listed(self) -> list[Tool]:
        tools = self._connection().tools(self.settings.tools)
        return [Tool(tool.spec, self._caller(tool.spec.name)) for tool in tools]

    def _connection(self) -> McpConnection:
        return connection_to(self.settings)

    def _caller(self, name: str) -> Any:
        return lambda **arguments: self._connection().call(name, arguments)
