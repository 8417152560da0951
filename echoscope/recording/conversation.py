"""Conversations in the format of chat APIs as turns of a trajectory."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from echoscope.recording.content_blocks import ConversationError, MessageContent, kind_of, read_content
from echoscope.recording.message_images import without_embedded
from echoscope.recording.response_items import as_messages
from echoscope.recording.tool_calls import RESULT_ROLES, OpenCalls, action_of, read_calls

THOUGHT_OPEN, THOUGHT_CLOSE = "<think>", "</think>"
POLICY_ROLES = {"assistant", "gpt", "model"}
TASK_ROLES = {"system", "developer"}
_READ = {"role", "from", "content", "value", "reasoning_content", "reasoning", "tool_calls", "function_call"}


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

    Items of OpenAI's Responses API are read as well. Calls and results may be fields of a message, or blocks of its
    content.

    Raises:
        ConversationError: it is no such list.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise ConversationError(f"the messages are {kind_of(messages)}, not a list of objects with role and content")
    task: list[str] = []
    read: list[str] = []
    seen: list[bytes] = []
    turns: list[ChatTurn] = []
    calls = OpenCalls()
    for number, message in enumerate(as_messages(messages)):
        role = _role(message, number)
        policy = role in POLICY_ROLES
        content = read_content(
            message.get("content", message.get("value")), number, policy=policy, before=0 if policy else len(seen)
        )
        if policy:
            made = _calls(message, content.calls)
            turns.append(_turn("\n\n".join(read), seen, content, message, made))
            calls.add(made, turns[-1].actions)
            read, seen = [], []
        elif role in TASK_ROLES and not turns and not read:
            task.append(content.text)
        else:
            read.append(content.text)
            if role in RESULT_ROLES:
                calls.resolve(message, content.text)
        for result in content.results if role not in RESULT_ROLES else ():
            calls.resolve({"tool_call_id": result.call_id, "is_error": result.failed}, result.text)
        seen = seen if policy else [*seen, *content.images]
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
    content: MessageContent,
    message: Mapping[str, Any],
    calls: list[dict[str, Any]],
) -> ChatTurn:
    given = message.get("reasoning_content") or message.get("reasoning")
    reasoning, text = given if isinstance(given, str) and given else content.reasoning, content.text
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


def _calls(message: Mapping[str, Any], blocks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Calls of tools of a message, also in the former field for a single function, and of its content.

    `blocks`: calls of the content. LangChain has each one a second time in the field, with the same id.
    """
    function = message.get("function_call")
    calls = read_calls([function] if function else message.get("tool_calls") or [])
    named = {call["id"] for call in calls if "id" in call}
    return [*calls, *(call for call in blocks if call.get("id") not in named)]


def _role(message: Any, number: int) -> str:
    if not isinstance(message, Mapping):
        raise ConversationError(f"message {number + 1} is {kind_of(message)}, not an object with role and content")
    role = message.get("role", message.get("from"))
    if not isinstance(role, str) or not role:
        raise ConversationError(f"message {number + 1} has no role: its fields are {_names(message)}")
    return role


def _names(message: Mapping[str, Any]) -> str:
    return ", ".join(map(str, message)) or "none"
