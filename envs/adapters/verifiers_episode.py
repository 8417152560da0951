"""Drives one episode of an environment of verifiers step by step: its coroutine runs until it waits for a reply.

verifiers plays an episode in one call, with an agent that queries a model. Here another agent returns the messages and
waits, in an event loop that runs only between two replies.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, get_origin, get_type_hints

from envs.adapters.verifiers_tools import API, EpisodeError, served_tools
from envs.base import CallRecord
from envs.tools.tool import Tool

UNREADABLE = "unreadable"
"""Name of the tool in a recorded call that could not be read."""


class Episode:
    """An episode of a task.

    Args:
        env: environment, as loaded by verifiers.
        task: a task of its taskset.
        max_turns: replies after which the conversation is closed and scored.
    """

    def __init__(self, env: Any, task: Any, max_turns: int) -> None:
        self.vf = import_module(API)
        self.env, self.task, self.max_turns = env, task, max_turns
        self.system, self.over = "", False
        self.tools: tuple[Tool, ...] = ()
        self.conversation: Conversation | None = None
        self._loop = asyncio.new_event_loop()
        self._asked: asyncio.Queue[list[Any]] = asyncio.Queue()
        self._reply: asyncio.Future[str | CallRecord] | None = None
        self._coroutine: asyncio.Task[None] | None = None
        self.record = self.vf.Episode(env=self.vf.EnvInfo(id=env.config.env_id), task=_recorded(self.vf, task))

    def start(self) -> list[Any]:
        """Run until the first reply is needed. Returns the messages before it; none if the episode is over already."""
        self._coroutine = self._loop.create_task(self._play())
        return self._advance()

    def reply(self, reply: str | CallRecord) -> list[Any]:
        """Pass on the reply, or an executed tool call, and run until the next reply is needed.

        Returns:
            The messages since; none at the end.
        """
        assert self._reply is not None
        self._reply.set_result(reply)
        return self._advance()

    @property
    def reward(self) -> float:
        """Return the weighted sum of a finished episode's rewards. Raises EpisodeError if there are none."""
        scored = [reward for trace in self.record.traces for reward in trace.rewards.values() if reward is not None]
        if not scored:
            raise EpisodeError("it gave no reward")
        return float(sum(reward.value for reward in scored))

    def close(self) -> None:
        """Abandon the episode if it is not over."""
        if self._loop.is_closed():
            return
        if self._coroutine is not None and not self._coroutine.done():
            self._coroutine.cancel()
            self._loop.run_until_complete(asyncio.wait([self._coroutine]))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def ask(self, messages: list[Any]) -> str | CallRecord:
        """Return the reply to the messages, or an executed call; called by the conversation."""
        self._reply = self._loop.create_future()
        self._asked.put_nowait(messages)
        return await self._reply

    async def _play(self) -> None:
        agents = self.vf.Agents(self.env.config, lambda name, config: Seat(self, config))
        try:
            await self.env.start()
            await self.env.setup(agents)
            await self.env.run(self.task, agents)
            await self.env.finalize(self.task, self.record)
        finally:
            await self.env.stop()

    def _advance(self) -> list[Any]:
        return self._loop.run_until_complete(self._until_asked())

    async def _until_asked(self) -> list[Any]:
        assert self._coroutine is not None
        asked = asyncio.ensure_future(self._asked.get())
        await asyncio.wait({self._coroutine, asked}, return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            return asked.result()
        asked.cancel()
        self.over = True
        self._coroutine.result()  # raises what the environment raised
        return []


class Seat:
    """The agent of an environment, with the methods that its code calls: `run` and `interaction`."""

    trainable = True

    def __init__(self, episode: Episode, config: Any) -> None:
        self._episode, self.config = episode, config

    async def run(self, task: Any, **borrowed: Any) -> Any:
        """Reply to the task's prompt once. Returns the scored trace."""
        async with self.interaction(task, **borrowed) as conversation:
            await conversation.turn()
        return conversation.trace

    @asynccontextmanager
    async def interaction(self, task: Any, **borrowed: Any) -> AsyncIterator[Conversation]:
        """Open a conversation that the environment leads; it is scored at the end of the block."""
        if any(borrowed.get(name) for name in ("runtime", "tools", "collect_artifacts")):
            raise EpisodeError("it lends the agent a machine or tools, and only messages of text can be played")
        if self._episode.conversation is not None:
            raise EpisodeError("it plays several conversations in an episode, and a trajectory is one")
        conversation = self._episode.conversation = Conversation(self._episode, task, self.config)
        async with conversation.machine():
            await conversation.open()
            async with served_tools(self._episode.env, task, conversation.trace) as self._episode.tools:
                yield conversation
                await conversation.close()

    def provision(self, task: Any = None) -> Any:
        """Refuse to lend machines."""
        raise EpisodeError("it provides a machine for the agent, and only messages of text can be played")


class Conversation:
    """A conversation, as seen by an environment: `turn` returns the agent's reply, `trace` records all messages."""

    def __init__(self, episode: Episode, task: Any, config: Any) -> None:
        self._episode, self._task, self._vf = episode, task, episode.vf
        states = import_module(f"{API}.state").state_cls
        self.trace = self._vf.Trace(
            task=_recorded(self._vf, task), state=states(type(task))(), agent=self._vf.AgentInfo(config=config)
        )
        self._runtime: Any = None
        self._over = False

    @asynccontextmanager
    async def machine(self) -> AsyncIterator[None]:
        """Provide a separate folder if setup or rewards need one; most do not."""
        if any("runtime" in inspect.signature(hook).parameters for hook in self._hooks()):
            runtimes = import_module(f"{API}.runtimes")
            async with runtimes.provision_runtime(self._vf.SubprocessConfig(), name=self.trace.id) as self._runtime:
                yield
        else:
            yield

    async def open(self) -> None:
        """Prepare the task, and take over its prompt."""
        data = self._task.data
        if data.image is not None or data.skills:
            raise EpisodeError("the question needs a container, and only messages of text can be played")
        if type(self._task).setup is not self._vf.Task.setup:
            await self._call(self._task.setup)
        if data.system_prompt:
            self._add(self._vf.SystemMessage(content=data.system_prompt))

    async def turn(self, message: Any = None) -> Any:
        """Send messages, or None for the task's prompt. Returns the segment with the reply, or a terminated one."""
        if self._over:
            raise RuntimeError("the conversation is over")
        if self.trace.stop_condition is not None:
            self._over = True
            return self._vf.Segment(messages=[], terminated=True)
        prompt = self._task.data.prompt
        if message is None and (prompt is None or self.trace.num_turns):
            raise ValueError("a turn without a message answers the task's prompt, at the beginning")
        sent = self._typed(prompt if message is None else message)
        for entry in sent:
            self._add(entry)
        texts = [entry for entry in self.trace.messages if entry.role == "system"]
        self._episode.system = "\n\n".join(message_text(entry) for entry in texts)
        unanswered, since = [entry for entry in sent if entry.role != "system"], len(self.trace.nodes)
        while isinstance(reply := await self._episode.ask(unanswered), CallRecord):
            unanswered = [self._add_call(reply)]
            if await self._stops():
                self._over = True
                return self._vf.Segment(messages=[], terminated=True)
        self._add(self._vf.AssistantMessage(content=reply), sampled=True)
        await self._stops()
        return self._vf.Segment(messages=[node.message for node in self.trace.nodes[since:]], root_reply=reply)

    async def send(self, *_: Any, **__: Any) -> Any:
        """Refuse messages between turns, which have no place in a trajectory."""
        raise EpisodeError("it sends messages to the agent between its turns")

    steer = send

    async def close(self) -> None:
        """Finish and score the conversation; the environment may do so before the end of its block."""
        if self.trace.is_completed and self.trace in self._episode.record.traces:
            return
        self.trace.stop("user_closed")
        if type(self._task).finalize is not self._vf.Task.finalize:
            await self._call(self._task.finalize)
        await self._task.score(self.trace, self._runtime)
        self.trace.ok = True
        self._episode.record.traces.append(self.trace)

    def _add(self, message: Any, *, sampled: bool = False) -> None:
        parent = len(self.trace.nodes) - 1 if self.trace.nodes else None
        self.trace.nodes.append(self._vf.MessageNode(parent=parent, message=message, sampled=sampled))

    def _add_call(self, call: CallRecord) -> Any:
        """Record a call and its result. Returns the message with the result."""
        identity = f"call_{len(self.trace.nodes)}"
        made = self._vf.ToolCall(id=identity, name=call.tool or UNREADABLE, arguments=json.dumps(call.arguments))
        self._add(self._vf.AssistantMessage(tool_calls=[made]), sampled=True)
        result = self._vf.ToolMessage(tool_call_id=identity, content=call.result, name=made.name)
        self._add(result)
        return result

    def _typed(self, message: Any) -> list[Any]:
        if isinstance(message, str):
            return [self._vf.UserMessage(content=message)]
        parse = import_module(f"{API}.dialects").parse_message
        return [parse(part) if isinstance(part, dict) else part for part in message]

    async def _stops(self) -> bool:
        """Return True if a stop condition or the limit of turns ends the conversation, and record that in the trace."""
        limit = min(self._episode.max_turns, self.trace.agent.config.max_turns or self._episode.max_turns)
        for hook in self._task.hooks("stop"):
            names = [
                name for name, kind in get_type_hints(hook).items() if (get_origin(kind) or kind) is self._vf.Trace
            ]
            if not names:
                raise EpisodeError(f"{hook.__name__} reads the requests to a model, which are not made here")
            ended = hook(**{names[0]: self.trace})
            if await ended if inspect.isawaitable(ended) else ended:
                self.trace.stop(hook.__name__)
                return True
        if self.trace.num_turns >= limit:
            self.trace.stop("max_turns")
            return True
        return False

    def _hooks(self) -> list[Callable[..., Any]]:
        """Return code of the task that may use a machine."""
        task_hooks = [
            getattr(self._task, name) for name in ("setup", "finalize") if _is_own(self._vf, self._task, name)
        ]
        return [*task_hooks, *self._task.hooks("reward"), *self._task.hooks("metric")]

    async def _call(self, hook: Callable[..., Any]) -> None:
        available = {"trace": self.trace, "runtime": self._runtime}
        await hook(**{name: available[name] for name in inspect.signature(hook).parameters if name in available})


def _is_own(vf: Any, task: Any, name: str) -> bool:
    return getattr(type(task), name) is not getattr(vf.Task, name)


def _recorded(vf: Any, task: Any) -> Any:
    return vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)


def message_text(message: Any) -> str:
    """Return the text of a message. Raises EpisodeError for a message with an image."""
    content = message.content
    if content is None or isinstance(content, str):
        return content or ""
    if any(part.type != "text" for part in content):
        raise EpisodeError("its messages have pictures, and only text can be played")
    return "\n".join(part.text for part in content)


def dialogue_text(messages: Sequence[Any]) -> str:
    """Return messages as the agent reads them: a single message unchanged, several with the names of their roles."""
    if len(messages) == 1:
        return message_text(messages[0])
    return "\n\n".join(f"{message.role}: {message_text(message)}" for message in messages)
