"""Conversations in the format of chat APIs as turns of a trajectory."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from echoscope.recording.message_images import IMAGE_PARTS, image_of, without_embedded
from echoscope.recording.tool_calls import RESULT_ROLES, OpenCalls, action_of, read_calls

THOUGHT_OPEN, THOUGHT_CLOSE = "<think>", "</think>"
POLICY_ROLES = {"assistant", "gpt", "model"}
TASK_ROLES = {"system", "developer"}
_READ = {"role", "from", "content", "value", "reasoning_content", "reasoning", "tool_calls", "function_call"}


class ConversationError(ValueError):
    """A message that cannot be read. The text says which one and why."""


@dataclass(frozen=True)
class ChatTurn:
    """One response of the policy and what it read before.

    Attributes:
        actions: its calls of tools, with the results that later messages have.
        extra: its tool calls as they were sent, and other fields of the message.
        images: files of the images that it saw.
    """

    state: str
    response: str
    thought: str = ""
    answer: str = ""
    actions: list[dict[str, Any]] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    images: list[bytes] = field(default_factory=list)


@dataclass(frozen=True)
class Conversation:
    """The task, as the system message states it, and the turns; `rest` is what was said after the last of them."""

    prompt: str
    turns: list[ChatTurn]
    rest: str = ""

    @property
    def opening(self) -> str:
        """What attempts at the same task have in common: the task and the first state, with its images."""
        seen = [hashlib.sha256(image).hexdigest() for image in (self.turns[0].images if self.turns else ())]
        return "\n".join([self.prompt, self.turns[0].state if self.turns else self.rest, *seen])


def conversation_of(messages: Any) -> Conversation:
    """The conversation of a list of messages with `role` and `content`, or of ShareGPT's `from` and `value`.

    Raises:
        ConversationError: it is no such list.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise ConversationError(f"the messages are {_kind(messages)}, not a list of objects with role and content")
    task: list[str] = []
    read: list[str] = []
    seen: list[bytes] = []
    turns: list[ChatTurn] = []
    calls = OpenCalls()
    for number, message in enumerate(messages):
        role = _role(message, number)
        policy = role in POLICY_ROLES
        text, reasoning = _texts(message.get("content", message.get("value")), number, [] if policy else seen)
        if policy:
            made = _calls(message)
            turns.append(_turn("\n\n".join(read), seen, text, reasoning, message, made))
            calls.add(made, turns[-1].actions)
            read, seen = [], []
        elif role in TASK_ROLES and not turns and not read:
            task.append(text)
        else:
            read.append(text)
            if role in RESULT_ROLES:
                calls.resolve(message, text)
    return Conversation("\n\n".join(task), turns, "\n\n".join(read))


def split_thought(response: str) -> tuple[str, str]:
    """The thought of a response between <think> and </think>, and what comes after it; empty if it has none."""
    before, closed, after = response.partition(THOUGHT_CLOSE)
    if closed:
        return before.removeprefix(THOUGHT_OPEN).strip() if before.startswith(THOUGHT_OPEN) else before.strip(), after
    if response.startswith(THOUGHT_OPEN):  # cut off while it was thinking
        return response.removeprefix(THOUGHT_OPEN).strip(), ""
    return "", response


def _turn(
    state: str,
    images: list[bytes],
    text: str,
    reasoning: str,
    message: Mapping[str, Any],
    calls: list[dict[str, Any]],
) -> ChatTurn:
    given = message.get("reasoning_content") or message.get("reasoning")
    reasoning = given if isinstance(given, str) and given else reasoning
    thought, answer = (reasoning, text) if reasoning else split_thought(text)
    response = f"{THOUGHT_OPEN}\n{reasoning}\n{THOUGHT_CLOSE}\n{text}" if reasoning else text
    actions = [action_of(call) for call in calls]
    written = [action["text"] for action in actions]
    others = {str(name): value for name, value in message.items() if name not in _READ and value is not None}
    extra: dict[str, Any] = {"message": without_embedded(others)} if others else {}
    if calls:
        extra["tool_calls"] = calls
    return ChatTurn(
        state=state,
        response="\n".join(part for part in (response, *written) if part),
        thought=thought,
        answer="\n".join(part for part in (answer.strip(), *written) if part),
        actions=actions,
        extra=extra,
        images=images,
    )


def _calls(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Calls of tools of a message, also in the former field for a single function."""
    function = message.get("function_call")
    return read_calls([function] if function else message.get("tool_calls") or [])


def _role(message: Any, number: int) -> str:
    if not isinstance(message, Mapping):
        raise ConversationError(f"message {number + 1} is {_kind(message)}, not an object with role and content")
    role = message.get("role", message.get("from"))
    if not isinstance(role, str) or not role:
        raise ConversationError(f"message {number + 1} has no role: its fields are {_names(message)}")
    return role


def _texts(content: Any, number: int, images: list[bytes]) -> tuple[str, str]:
    """The text of a message's content, and the reasoning that it contains as parts of their own.

    Images that are embedded in it are added to `images`.
    """
    if content is None:
        return "", ""
    if isinstance(content, str):
        return content, ""
    if not isinstance(content, Sequence):
        raise ConversationError(f"the content of message {number + 1} is {_kind(content)}, not text or a list of parts")
    texts: list[str] = []
    reasoning: list[str] = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Mapping):
            kind = str(part.get("type", "text"))
            if kind in IMAGE_PARTS:
                words, image = image_of(part, len(images))
                texts.append(words)
                images.extend([] if image is None else [image])
                continue
            words = part.get("text") or part.get("reasoning") or part.get("thinking") or ""
            (reasoning if kind in ("reasoning", "thinking") else texts).append(str(words) if words else f"[{kind}]")
        else:
            raise ConversationError(f"message {number + 1} has a part that is {_kind(part)}, not text or an object")
    return "\n".join(texts), "\n".join(reasoning)


def _kind(value: Any) -> str:
    names = {"NoneType": "missing", "str": "a text", "dict": "an object", "list": "a list", "bool": "true or false"}
    return names.get(type(value).__name__, "a number" if isinstance(value, int | float) else type(value).__name__)


def _names(message: Mapping[str, Any]) -> str:
    return ", ".join(map(str, message)) or "none"
