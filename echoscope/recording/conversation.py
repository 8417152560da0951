"""Reads conversations in the format of chat APIs as turns of a trajectory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from echoscope.recording.content_blocks import ConversationError, MessageContent, read_content, type_name
from echoscope.recording.message_images import without_embedded
from echoscope.recording.response_items import as_messages
from echoscope.recording.tool_calls import RESULT_ROLES, OpenCalls, as_action, read_calls

THOUGHT_OPEN, THOUGHT_CLOSE = "<think>", "</think>"
POLICY_ROLES = {"assistant", "gpt", "model"}
TASK_ROLES = {"system", "developer"}
_TEXTS = {"role", "from", "content", "value"}
_OF_RESPONSES = {"reasoning_content", "reasoning", "tool_calls", "function_call"}
_OF_RESULTS = {"name", "tool_call_id", "error", "is_error", "status"}
"""Fields that say which call a message answers, and how."""
_OF_ITEMS = {"type", "id", "status"}
"""Fields of all items of OpenAI's Responses API."""


@dataclass(frozen=True)
class ChatTurn:
    """One response of the policy, and what it read before.

    Attributes:
        actions: its tool calls, with the results from later messages.
        extra: its tool calls as they were sent, other fields of the message, and `read`, the further fields of messages
            before it.
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
    """The task, as stated by the system message, and the turns; `rest` contains messages after the last turn."""

    prompt: str
    turns: list[ChatTurn]
    rest: str = ""

    @property
    def opening(self) -> str:
        """Return the common part of attempts at the same task: the task and the first state, with its images."""
        seen = [hashlib.sha256(image).hexdigest() for image in (self.turns[0].images if self.turns else ())]
        return "\n".join([self.prompt, self.turns[0].state if self.turns else self.rest, *seen])


def read_conversation(messages: Any) -> Conversation:
    """Read a list of messages with `role` and `content`, or with ShareGPT's `from` and `value`.

    Items of OpenAI's Responses API are read as well. Calls and results may be fields of a message, or blocks of its
    content.

    Raises:
        ConversationError: it is not such a list.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise ConversationError(f"the messages are {type_name(messages)}, not a list of objects with role and content")
    task: list[str] = []
    read: list[str] = []
    seen: list[bytes] = []
    fields: list[dict[str, Any]] = []
    turns: list[ChatTurn] = []
    calls = OpenCalls()
    for number, message in enumerate(as_messages(messages)):
        role = _role(message, number)
        policy = role in POLICY_ROLES
        content = read_content(
            message.get("content", message.get("value")),
            number,
            policy=policy,
            images_before=0 if policy else len(seen),
        )
        if policy:
            made = _calls(message, content.calls)
            turns.append(_turn("\n\n".join(read), seen, content, message, made))
            turns[-1].extra.update({"read": fields} if fields else {})
            calls.add(made, turns[-1].actions)
            read, seen, fields = [], [], []
        else:
            read_fields = _OF_ITEMS | (_OF_RESULTS if role in RESULT_ROLES else set())
            fields += _further_fields(message, read_fields, content)
            (task if role in TASK_ROLES and not turns and not read else read).append(content.text)
            seen += content.images
        _resolve(calls, role, message, content)
    return Conversation("\n\n".join(task), turns, "\n\n".join([*read, *map(_json, fields)]))


def _resolve(calls: OpenCalls, role: str, message: Mapping[str, Any], content: MessageContent) -> None:
    """Keep the results in a message with their calls."""
    if role in RESULT_ROLES:
        calls.resolve(message, content.text)
        return
    for result in content.results:
        calls.resolve({"tool_call_id": result.call_id, "is_error": result.failed}, result.text)


def split_thought(response: str) -> tuple[str, str]:
    """Return the thought between <think> and </think>, empty if there is none, and the text after it."""
    thought, closed, after = response.partition(THOUGHT_CLOSE)
    if closed:
        return thought.removeprefix(THOUGHT_OPEN).strip() if thought.startswith(
            THOUGHT_OPEN
        ) else thought.strip(), after
    if response.startswith(THOUGHT_OPEN):  # cut off in the thought
        return response.removeprefix(THOUGHT_OPEN).strip(), ""
    return "", response


def _turn(
    state: str,
    images: list[bytes],
    content: MessageContent,
    message: Mapping[str, Any],
    calls: list[dict[str, Any]],
) -> ChatTurn:
    given = [message.get(name) for name in ("reasoning_content", "reasoning")]
    parts = dict.fromkeys(part for part in (*given, content.reasoning) if isinstance(part, str) and part)
    reasoning, text = "\n".join(parts), content.text
    thought, answer = (reasoning, text) if reasoning else split_thought(text)
    response = f"{THOUGHT_OPEN}\n{reasoning}\n{THOUGHT_CLOSE}\n{text}" if reasoning else text
    actions = [as_action(call) for call in calls]
    written = [action["text"] for action in actions]
    others = _further_fields(message, _OF_RESPONSES, content)
    extra: dict[str, Any] = {"message": others[0]} if others else {}
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


def _further_fields(message: Mapping[str, Any], read: set[str], content: MessageContent) -> list[dict[str, Any]]:
    """Return the fields of a message without its text, the fields in `read` and empty fields; [] if no other remains.

    Blocks of its content that are not completely shown count as a field as well.
    """
    others = {
        str(name): without_embedded(value)
        for name, value in message.items()
        if name not in _TEXTS and name not in read and value not in (None, "", [], {})
    }
    if content.further:
        others["content"] = without_embedded(content.further)
    return [others] if others else []


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _calls(message: Mapping[str, Any], blocks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a message's tool calls, including the former field for a single function and calls in its content.

    `blocks` are the calls in the content. LangChain repeats each of them in the field, with the same id.
    """
    function = message.get("function_call")
    calls = read_calls([function] if function else message.get("tool_calls") or [])
    named = {call["id"] for call in calls if "id" in call}
    return [*calls, *(call for call in blocks if call.get("id") not in named)]


def _role(message: Any, number: int) -> str:
    if not isinstance(message, Mapping):
        raise ConversationError(f"message {number + 1} is {type_name(message)}, not an object with role and content")
    role = message.get("role", message.get("from"))
    if not isinstance(role, str) or not role:
        raise ConversationError(f"message {number + 1} has no role: its fields are {_names(message)}")
    return role


def _names(message: Mapping[str, Any]) -> str:
    return ", ".join(map(str, message)) or "none"
