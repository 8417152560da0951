"""Contents of chat messages: text, reasoning and images, and the calls of tools and results among their blocks.

Blocks are those of OpenAI's chat completions and responses, of Anthropic's messages and of Inspect.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from echoscope.recording.message_images import IMAGE_PARTS, image_of, without_embedded
from echoscope.recording.tool_calls import read_calls

CALL_KINDS = ("tool_use", "server_tool_use", "mcp_tool_use")
_REASONING = {"reasoning", "thinking", "redacted_thinking"}
_TEXT_FIELDS = ("text", "value", "content", "reasoning", "thinking", "refusal")
_UNREADABLE = {"type", "signature", "encrypted_content", "encrypted_index", "cache_control"}
"""Fields of blocks with nothing for a reader."""
_OF_CALLS = {"id", "name", "input", "arguments", "function", "result", "error", "failed"}


class ConversationError(ValueError):
    """A message that cannot be read. The text says which one and why."""


@dataclass(frozen=True)
class ToolResult:
    """A block with the result of a call; `call_id` is empty where it names none."""

    call_id: str
    text: str
    failed: bool = False


@dataclass
class MessageContent:
    """What the content of a message holds; `calls` are those of read_calls().

    Attributes:
        images: files of the images that are embedded and can be recorded.
        further: blocks with texts that are neither in the text nor in the reasoning, calls and results.
    """

    text: str = ""
    reasoning: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    results: list[ToolResult] = field(default_factory=list)
    images: list[bytes] = field(default_factory=list)
    further: list[Mapping[str, Any]] = field(default_factory=list)


def read_content(content: Any, number: int, *, policy: bool, before: int = 0) -> MessageContent:
    """The content of a message: a text, or a list of texts and blocks. Unknown and malformed blocks become text.

    Args:
        number: 0-based, of the message, for errors.
        policy: the policy wrote it, so that it may call tools; the text of results is then that of the calls alone.
        before: images of the same turn in earlier messages.
    Raises:
        ConversationError: it is neither, or a part is neither a text nor an object.
    """
    if content is None:
        return MessageContent()
    if isinstance(content, str):
        return MessageContent(content)
    if not isinstance(content, Sequence):
        raise ConversationError(
            f"the content of message {number + 1} is {kind_of(content)}, not text or a list of parts"
        )
    found = MessageContent()
    texts: list[str] = []
    reasoning: list[str] = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
            continue
        if not isinstance(part, Mapping):
            raise ConversationError(f"message {number + 1} has a part that is {kind_of(part)}, not text or an object")
        kind = str(part.get("type") or "text")
        before_part = len(texts), len(reasoning), len(found.results), len(found.calls)
        _read_block(found, part, kind, texts, reasoning, policy=policy, before=before)
        shown = [*texts[before_part[0] :], *reasoning[before_part[1] :]]
        shown += [text for result in found.results[before_part[2] :] for text in (result.text, result.call_id)]
        if _has_more(part, kind, "\n".join(shown), called=len(found.calls) > before_part[3]):
            found.further.append(part)
    found.text, found.reasoning = "\n".join(texts), "\n".join(reasoning)
    return found


def _read_block(
    found: MessageContent,
    part: Mapping[str, Any],
    kind: str,
    texts: list[str],
    reasoning: list[str],
    *,
    policy: bool,
    before: int,
) -> None:
    """Add what a block has to the content, and to its texts and reasoning."""
    if policy and kind in CALL_KINDS and _is_text(part.get("name")):
        found.calls += read_calls([part])
    elif kind.endswith("tool_result") and {"tool_use_id", "content"} & part.keys():
        texts += _add_result(found, _result(part, found.images, before), policy=policy)
    elif kind in _REASONING and policy:
        reasoning += [thought] if (thought := _reasoning(part, kind)) else []
    else:
        texts.append(_text(part, kind, found.images, before))


def _add_result(found: MessageContent, result: ToolResult, *, policy: bool) -> list[str]:
    """Add the result of a call; returns its text unless it answers a call of the policy's own message."""
    if policy and result.call_id in {call.get("id") for call in found.calls}:
        found.results.append(result)
        return []
    found.results += [] if policy else [result]
    return [result.text]


def kind_of(value: Any) -> str:
    """The type of a value in the words of error messages."""
    names = {"NoneType": "missing", "str": "a text", "dict": "an object", "list": "a list", "bool": "true or false"}
    return names.get(type(value).__name__, "a number" if isinstance(value, int | float) else type(value).__name__)


def _text(part: Mapping[str, Any], kind: str, images: list[bytes], before: int) -> str:
    """The text of a block, or what stands for one: its type, with the fields of a call or result that is malformed."""
    if kind in IMAGE_PARTS:
        words, image = image_of(part, before + len(images))
        images += [] if image is None else [image]
        return words
    if words := next((text for name in _TEXT_FIELDS if _is_text(text := _text_in(part.get(name)))), ""):
        return str(words)
    if kind in CALL_KINDS or kind.endswith("tool_result"):
        return f"[{kind}] {_json({name: value for name, value in part.items() if name != 'type'})}"
    named = " ".join(str(part[name]) for name in ("title", "url") if _is_text(part.get(name)))  # what a search found
    return named or f"[{kind}]"


def _has_more(part: Mapping[str, Any], kind: str, shown: str, *, called: bool) -> bool:
    """Whether a block has texts that are neither shown nor, where it was `called`, in its call."""
    if kind in IMAGE_PARTS or kind == "redacted_thinking" or part.get("redacted") is True:
        return False
    known = _UNREADABLE | (_OF_CALLS if called else set())
    return any(text not in shown for name, value in part.items() if name not in known for text in _texts_in(value))


def _texts_in(value: Any) -> Iterator[str]:
    """The texts of a value at any depth, without images."""
    if _is_text(value):
        yield value
    elif isinstance(value, Mapping) and value.get("type") not in IMAGE_PARTS:
        for inner in value.values():
            yield from _texts_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts_in(inner)


def _text_in(value: Any) -> Any:
    """The text of a field, also of an object with a text and annotations."""
    return value.get("value") if isinstance(value, Mapping) and set(value) <= {"value", "annotations"} else value


def _reasoning(part: Mapping[str, Any], kind: str) -> str:
    """The reasoning of a block, or its summary where only that may be read; empty if it was left out."""
    parts = [part.get("summary"), part.get("content")]
    lists = [piece for pieces in parts if isinstance(pieces, list) for piece in pieces if isinstance(piece, Mapping)]
    summary = parts[0] if _is_text(parts[0]) else "\n".join(str(piece["text"]) for piece in lists if piece.get("text"))
    if kind == "redacted_thinking" or part.get("redacted") is True:
        return str(summary or "[redacted]")
    found = next((part[name] for name in _TEXT_FIELDS if _is_text(part.get(name))), summary)
    left_out = {"signature", "encrypted_content"} & part.keys()
    return str(found) if found or left_out else f"[{kind}]"


def _result(part: Mapping[str, Any], images: list[bytes], before: int) -> ToolResult:
    content, call_id = part.get("content"), part.get("tool_use_id")
    pieces = content if isinstance(content, list) else [content]
    texts = [_result_text(piece, images, before) for piece in pieces]
    failed = any(isinstance(piece, Mapping) and piece.get("error_code") for piece in pieces)  # of the service's tools
    return ToolResult("" if call_id is None else str(call_id), "\n".join(texts), failed or part.get("is_error") is True)


def _result_text(piece: Any, images: list[bytes], before: int) -> str:
    if isinstance(piece, Mapping):
        if _is_text(piece.get("error_code")):
            return str(piece["error_code"])
        if isinstance(piece.get("type"), str):
            return _text(piece, piece["type"], images, before)
    return piece if isinstance(piece, str) else "" if piece is None else _json(piece)


def _json(value: Any) -> str:
    return json.dumps(without_embedded(value), ensure_ascii=False, default=str)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""
