"""Chat format of hosted models: messages ⇄ ids of bytes, role marks and interned tokens, calls and definitions.

Hosted models, with an unknown tokenizer, can thus use the rollout and token recording of all other engines.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Sequence
from typing import Any, Self

from envs.base import ToolSpec
from envs.tools.call_formats import action_of_call
from envs.tools.calls import refuse_constant
from trainer.config.rollout import SYSTEM
from trainer.engines.hosted.completion import ReportedCall
from trainer.policy.byte_alphabet import BYTE_OF
from trainer.policy.chat_format import ANSWER, NOT_EXECUTED, THINK, ChatFormat, Role

SYSTEM_MARK, USER_MARK, ASSISTANT_MARK, END, TOOL_MARK = 256, 257, 258, 259, 260
_ROLES = {SYSTEM_MARK: "system", USER_MARK: "user", ASSISTANT_MARK: "assistant", TOOL_MARK: "tool"}
_MARKS = 5
BYTE_IDS = 256 + _MARKS
"""Number of ids whose meaning does not depend on what was sampled."""
_CHARACTER_OF = {byte: character for character, byte in BYTE_OF.items()}

Message = dict[str, Any]
"""`role` and `content`, and the role's `tool_calls` or `tool_call_id`, as in the API."""


class InternedTokens:
    """Stand-in for a tokenizer. Ids 0 to 255 are bytes, followed by the marks, then the rest in order of first use.

    Attributes:
        calls: tool calls by id. Their text has the format `hermes`, for readers only: it is never parsed.
        definitions: definitions of tools by id, without text.
    """

    added_tokens_decoder: dict[int, Any] = {}

    def __init__(self) -> None:
        self._bytes_of: list[bytes] = [bytes([byte]) for byte in range(256)] + [b""] * _MARKS
        self._id_of = {token: number for number, token in enumerate(self._bytes_of[:256])}
        self.calls: dict[int, ReportedCall] = {}
        self.definitions: dict[int, list[dict[str, Any]]] = {}
        self._id_of_call: dict[ReportedCall, int] = {}
        self._id_of_tools: dict[tuple[str, ...], int] = {}

    def encode(self, text: str) -> list[int]:
        """Encode a text byte by byte; characters that UTF-8 cannot encode become a question mark."""
        return list(text.encode("utf-8", "replace"))

    def intern(self, tokens: Iterable[bytes]) -> list[int]:
        """Return the ids of tokens given as bytes. The id of a single-byte token is that byte."""
        ids = []
        for token in tokens:
            number = self._id_of.get(token)
            if number is None:
                number = self._id_of[token] = self._new(token)
            ids.append(number)
        return ids

    def intern_calls(self, calls: Iterable[ReportedCall]) -> list[int]:
        """Return one id for each call."""
        ids = []
        for call in calls:
            number = self._id_of_call.get(call)
            if number is None:
                number = self._id_of_call[call] = self._new(_text(call).encode())
                self.calls[number] = call
            ids.append(number)
        return ids

    def intern_tools(self, tools: Sequence[ToolSpec]) -> int:
        """Return the id of the definitions of these tools."""
        key = tuple(tool.model_dump_json() for tool in tools)
        number = self._id_of_tools.get(key)
        if number is None:
            number = self._id_of_tools[key] = self._new(b"")
            self.definitions[number] = [tool.definition() for tool in tools]
        return number

    def _new(self, text: bytes) -> int:
        self._bytes_of.append(text)
        return len(self._bytes_of) - 1

    def to_bytes(self, ids: Iterable[int]) -> bytes:
        """Return the bytes of the ids; marks and definitions have none."""
        return b"".join(self._bytes_of[token] for token in ids)

    def decode(self, ids: Iterable[int], **_: Any) -> str:
        return self.to_bytes(ids).decode("utf-8", "replace")

    def convert_ids_to_tokens(self, token: int) -> str:
        """Return the token in the alphabet of byte-level tokenizers."""
        return "".join(_CHARACTER_OF[byte] for byte in self._bytes_of[token])


def _text(call: ReportedCall) -> str:
    # Arguments that are an object are stored verbatim, since parsing can produce text that UTF-8 cannot encode.
    written = call.arguments.strip() or "{}"
    arguments = written if _is_object(written) else json.dumps(call.arguments, ensure_ascii=False)
    return f'<tool_call>{{"name": {json.dumps(call.name, ensure_ascii=False)}, "arguments": {arguments}}}</tool_call>'


def _is_object(text: str) -> bool:
    """True if a text is a JSON object without the constants that only Python accepts."""
    try:
        return isinstance(json.loads(text, parse_constant=refuse_constant), dict)
    except (ValueError, RecursionError):
        return False


class HostedChat(ChatFormat):
    """A `ChatFormat` without a template: the endpoint applies its own to the messages.

    Args:
        think: whether responses contain a thought.
        prefill: whether the prompt includes the opening tag of the response; otherwise the model writes it.
        system: the system message; empty = none.
        native_calls: whether the request defines tools and calls are reported separately from the text; otherwise calls
            are answers.
    """

    knows_prompt_tokens = False

    def __init__(self, *, think: bool, prefill: bool, system: str = SYSTEM, native_calls: bool = False) -> None:
        self.system, self.native_calls, self.think = system, native_calls, think
        self._thought = THINK if think and prefill else ""
        self.tokens = InternedTokens()
        self.tokenizer = self.tokens
        self.eos_id = END
        self.forced = (THINK if think else ANSWER) if prefill else ""

    def with_tools(self, tools: Sequence[ToolSpec]) -> Self:
        """Like `ChatFormat`: return this format, unless calls are native; with native calls no answer is prefilled."""
        if not tools or not self.native_calls:
            return self
        bound = copy.copy(self)
        bound.tools, bound.forced = tuple(tools), self._thought
        bound.renders_tools = bound.separate_results = True
        return bound

    def opening(self, user: str) -> list[int]:
        definitions = [self.tokens.intern_tools(self.tools)] if self.tools else []
        system = [SYSTEM_MARK, *self.tokens.encode(self.system), END] if self.system else []
        return [*definitions, *system, *self._turn(USER_MARK, user)]

    def between(self, user: str, *, ended: bool, role: Role = "user", earlier: Sequence[str] = ()) -> list[int]:
        """Like `ChatFormat`; without native calls, results are messages of the user.

        Responses never contain the end token: endpoints report the end without it.
        """
        results = [token for text in earlier for token in (TOOL_MARK, *self.tokens.encode(text), END)]
        return [END, *results, *self._turn(TOOL_MARK if role == "tool" and self.tools else USER_MARK, user)]

    def _turn(self, mark: int, text: str) -> list[int]:
        return [mark, *self.tokens.encode(text), END, ASSISTANT_MARK, *self.tokens.encode(self.forced)]

    def encode_response(self, text: str) -> list[int]:
        """Return a response's text as bytes: the endpoint does not read the tokens that it reported."""
        return self.tokens.encode(text)

    def frame(self, role: Role | None) -> tuple[str, str]:
        """Return the system message and the forced tag; the endpoint's template is unknown."""
        system = f"{self.system}\n\n" if role is None and self.system else ""
        return system, self.forced

    def split_calls(self, ids: list[int]) -> tuple[str, tuple[str, ...]]:
        calls = [self.tokens.calls[token] for token in ids if token in self.tokens.calls]
        text = self.decode([token for token in ids if token not in self.tokens.calls])
        return text, tuple(action_of_call(call.name, call.arguments, self.tools) for call in calls)

    def decode(self, ids: list[int]) -> str:
        return self.tokens.decode(ids).replace("\0", "\N{REPLACEMENT CHARACTER}")

    def definitions(self, ids: Sequence[int]) -> list[dict[str, Any]]:
        """Return the definitions of a dialogue's tools; empty without native calls."""
        return self.tokens.definitions.get(ids[0], []) if ids else []

    def messages(self, ids: Sequence[int]) -> list[Message]:
        """Return the messages of a dialogue's ids; an unfinished last message is included if it has content.

        Results follow their calls in order, one message for each call.
        """
        messages: list[Message] = []
        role, start = "", 0
        for position, token in enumerate(ids):
            if token in _ROLES:
                role, start = _ROLES[token], position + 1
            elif token == END and role:
                messages.append(self._message(role, ids[start:position]))
                role = ""
        if role and start < len(ids):
            messages.append(self._message(role, ids[start:]))
        return _paired(messages)

    def _message(self, role: str, ids: Sequence[int]) -> Message:
        calls = [self.tokens.calls[token] for token in ids if token in self.tokens.calls]
        if not calls:
            return {"role": role, "content": self.tokens.decode(ids)}
        text = self.tokens.decode(token for token in ids if token not in self.tokens.calls)
        return {"role": role, "content": text or None, "tool_calls": [_as_sent(call) for call in calls]}


def _as_sent(call: ReportedCall) -> dict[str, Any]:
    """Format a call as later requests repeat it.

    Servers reject dialogues with arguments other than a JSON object, so that other arguments are wrapped in one.
    """
    arguments = call.arguments.strip() or "{}"
    if not _is_object(arguments):
        arguments = json.dumps({"unreadable": call.arguments}, ensure_ascii=False)
    # A name is mandatory; the result of a call without one is this error.
    return {"id": call.id, "type": "function", "function": {"name": call.name or "unnamed", "arguments": arguments}}


def _paired(messages: Iterable[Message]) -> list[Message]:
    """Add the id of its call to each result, and a result to each call without one."""
    paired: list[Message] = []
    pending: list[str] = []
    for message in messages:
        if message["role"] == "tool" and pending:
            paired.append(message | {"tool_call_id": pending.pop(0)})
            continue
        paired += (_unexecuted(identifier) for identifier in pending)
        pending = [call["id"] for call in message.get("tool_calls", ())]
        # A call in the form of an answer has a result, but no id.
        paired.append(message | {"role": "user"} if message["role"] == "tool" else message)
    return [*paired, *(_unexecuted(identifier) for identifier in pending)]


def _unexecuted(identifier: str) -> Message:
    return {"role": "tool", "content": NOT_EXECUTED, "tool_call_id": identifier}
