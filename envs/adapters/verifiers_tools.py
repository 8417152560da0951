"""Tools of an environment of verifiers, listed and called in the process of the episode.

verifiers starts an MCP server for each set of tools, in a separate process. Here the same server has no transport: its
definitions are listed and its tools are called directly, in the event loop of the episode.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import Any

from pydantic import TypeAdapter, ValidationError

from envs.base import ToolSpec
from envs.tools.tool import Tool, ToolError

API = "verifiers.v1"


class EpisodeError(RuntimeError):
    """The episode cannot go on. The message gives the reason."""


def get_toolsets(env: Any) -> list[Any]:
    """Return the toolsets of an environment: first its taskset's, then its tasks'."""
    tasks = type(env.taskset).task_type()
    return [*env.taskset.toolsets(env.taskset.config), *tasks.toolsets(env.taskset.config.task)]


def refusal_of_tools(toolset: Any) -> str:
    """Explain why the tools of a toolset cannot be called here; empty if they can."""
    name, config = type(toolset).__name__, toolset.config
    if getattr(config, "url", None):
        return f"the tools of {name} are those of a server, and only tools of its own code are called"
    if getattr(config, "colocated", False):
        return f"the tools of {name} use the agent's machine, and it has none here"
    if not isinstance(config.runtime, import_module(API).SubprocessConfig):
        return f"the tools of {name} need a container"
    return ""


@asynccontextmanager
async def served_tools(env: Any, task: Any, trace: Any) -> AsyncIterator[tuple[Tool, ...]]:
    """Yield the tools of an episode, which can be called while its event loop waits for a reply.

    Args:
        env: environment; its taskset's tools are set up for each episode, so that episodes do not affect each other.
        task: the episode's task; `setup_task` of its tools gets a copy of its data.
        trace: contains the state that tools, stop conditions and rewards share.

    Raises:
        EpisodeError: two tools have the same name, or a name is impossible in a call.
    """
    async with AsyncExitStack() as stack:
        tools: dict[str, Tool] = {}
        for toolset in env.taskset.toolsets(env.taskset.config):
            _add(tools, await _set_up_tools(toolset, None, trace, stack))
        for toolset in task.toolsets(task.config):
            _add(tools, await _set_up_tools(toolset, task.data, trace, stack))
        yield tuple(tools.values())


def _add(collected: dict[str, Tool], tools: Iterable[Tool]) -> None:
    for tool in tools:
        if tool.spec.name in collected:
            raise EpisodeError(f"two of its tools have the name {tool.spec.name}")
        collected[tool.spec.name] = tool


async def _set_up_tools(toolset: Any, data: Any, trace: Any, stack: AsyncExitStack) -> list[Tool]:
    """Return the tools of one toolset, set up as by its server: for a task if its data are given."""
    _share_state(toolset, trace)
    await stack.enter_async_context(toolset._exit_stack)
    await toolset.setup()
    if data is not None:
        await toolset.setup_task(type(data).model_validate_json(data.model_dump_json()))
    name = toolset.server_name
    server = import_module("mcp.server.mcpserver").MCPServer(name or type(toolset).__name__)
    toolset.register(server)
    return [
        _tool(server, f"{name}_{listed.name}" if name else listed.name, listed) for listed in await server.list_tools()
    ]


def _tool(server: Any, name: str, listed: Any) -> Tool:
    """Return a listed tool under the name that verifiers gives it, with the toolset's name in front."""
    try:
        spec = ToolSpec(name=name, description=listed.description or "", parameters=listed.input_schema)
    except ValidationError:
        raise EpisodeError(f"it has a tool with the name {name!r}, which no call can have") from None
    return Tool(spec, _caller(asyncio.get_running_loop(), server, listed.name))


def _caller(loop: asyncio.AbstractEventLoop, server: Any, name: str) -> Callable[..., str]:
    """Return the function behind a tool. As with MCP, an exception of the tool becomes a result that describes it."""
    failures = import_module("mcp").MCPError

    def run(**arguments: Any) -> str:
        try:
            result = loop.run_until_complete(server.call_tool(name, arguments))
        except failures:
            raise
        except Exception as error:  # noqa: BLE001 - code of other packages, whose error the agent reads
            raise ToolError(str(error)) from None
        content = getattr(result, "content", None)
        if content is None or any(part.type != "text" for part in content):
            raise EpisodeError(f"the tool {name} returns something other than text, and only text can be played")
        text = "\n".join(part.text for part in content)
        if result.is_error:
            raise ToolError(text)
        return text

    return run


def _share_state(toolset: Any, trace: Any) -> None:
    """Let tools read and change the state of the trace: each call gets a copy, and a failing call changes nothing."""
    own_type, shared = TypeAdapter(toolset._state_cls), TypeAdapter(type(trace.state))

    async def pull() -> Any:
        return own_type.validate_json(shared.dump_json(trace.state))

    async def push(before: bytes) -> None:
        if (after := own_type.dump_json(toolset.state)) != before:
            trace.state = shared.validate_json(after)

    toolset._pull_state, toolset._push_state = pull, push
