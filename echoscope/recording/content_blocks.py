"""Contents of chat messages: text, reasoning, images, tool calls and results.

Block formats are OpenAI's chat completions and responses, Anthropic's messages, and Inspect's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from echoscope.recording.message_images import IMAGE_PARTS, read_image, without_embedded
from echoscope.recording.tool_calls import read_calls

CALL_KINDS = ("tool_use", "server_tool_use", "mcp_tool_use")
_TEXT_KINDS = {"text", "input_text", "output_text"}
_REASONING = {"reasoning", "thinking", "redacted_thinking"}
_TEXT_FIELDS = ("text", "value", "content", "reasoning", "thinking", "refusal")
_UNREADABLE = {"type", "signature", "encrypted_content", "encrypted_index", "cache_control"}
"""Fields of blocks without anything readable."""
_OF_CALLS = {"id", "name", "input", "arguments", "function", "result", "error", "failed"}


class ConversationError(ValueError):
    """A message that cannot be read. The text names the message and the problem."""


@dataclass(frozen=True)
class ToolResult:
    """A block with the result of a call; `call_id` is empty if it names none."""

    call_id: str
    text: str
    failed: bool = False


@dataclass
class MessageContent:
    """Parts of a message's content; `calls` are in the form of read_calls().

    Attributes:
        images: files of embedded images that can be recorded.
        further: blocks with texts that are in neither text, reasoning, calls nor results.
    """

    text: str = ""
    reasoning: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    results: list[ToolResult] = field(default_factory=list)
    images: list[bytes] = field(default_factory=list)
    further: list[Mapping[str, Any]] = field(default_factory=list)


def read_content(content: Any, number: int, *, policy: bool, images_before: int = 0) -> MessageContent:
    """Read a message's content: a text, or a list of texts and blocks. Unknown and malformed blocks become text.

    Args:
        number: 0-based number of the message, for errors.
        policy: True if the policy wrote it, so that it may call tools; the text of results then belongs to the calls.
        images_before: number of images in earlier messages of the same turn.
    Raises:
        ConversationError: it is neither, or a part is neither a text nor an object.
    """
    if content is None:
        return MessageContent()
    if isinstance(content, str):
        return MessageContent(content)
    if not isinstance(content, Sequence):
        raise ConversationError(
            f"the content of message {number + 1} is {type_name(content)}, not text or a list of parts"
        )
    content_parts = MessageContent()
    texts: list[str] = []
    reasoning: list[str] = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
            continue
        if not isinstance(part, Mapping):
            raise ConversationError(f"message {number + 1} has a part that is {type_name(part)}, not text or an object")
        kind = str(part.get("type") or "text")
        before_part = len(texts), len(reasoning), len(content_parts.results), len(content_parts.calls)
        _read_block(content_parts, part, kind, texts, reasoning, policy=policy, images_before=images_before)
        shown = [*texts[before_part[0] :], *reasoning[before_part[1] :]]
        shown += [text for result in content_parts.results[before_part[2] :] for text in (result.text, result.call_id)]
        if _has_more(part, kind, "\n".join(shown), called=len(content_parts.calls) > before_part[3]):
            content_parts.further.append(part)
    content_parts.text, content_parts.reasoning = "\n".join(texts), "\n".join(reasoning)
    return content_parts


def _read_block(
    content_parts: MessageContent,
    part: Mapping[str, Any],
    kind: str,
    texts: list[str],
    reasoning: list[str],
    *,
    policy: bool,
    images_before: int,
) -> None:
    """Add a block to the content, and to its texts and reasoning."""
    if policy and kind in CALL_KINDS and _is_text(part.get("name")):
        content_parts.calls += read_calls([part])
    elif kind.endswith("tool_result") and {"tool_use_id", "content"} & part.keys():
        texts += _add_result(content_parts, _result(part, content_parts.images, images_before), policy=policy)
    elif kind in _REASONING and policy:
        reasoning += [thought] if (thought := _reasoning(part, kind)) else []
    else:
        texts.append(_text(part, kind, content_parts.images, images_before))


def _add_result(content_parts: MessageContent, result: ToolResult, *, policy: bool) -> list[str]:
    """Add the result of a call; returns its text unless it answers a call of the policy's own message."""
    if policy and result.call_id in {call.get("id") for call in content_parts.calls}:
        content_parts.results.append(result)
        return []
    content_parts.results += [] if policy else [result]
    return [result.text]


def type_name(value: Any) -> str:
    """Return the type of a value for error messages."""
    names = {"NoneType": "missing", "str": "a text", "dict": "an object", "list": "a list", "bool": "true or false"}
    return names.get(type(value).__name__, "a number" if isinstance(value, int | float) else type(value).__name__)


def _text(part: Mapping[str, Any], kind: str, images: list[bytes], images_before: int) -> str:
    """Return the text of a block, or a replacement: its type, with the fields of a malformed text, call or result."""
    if kind in IMAGE_PARTS:
        shown_text, image = read_image(part, images_before + len(images))
        images += [] if image is None else [image]
        return shown_text
    if shown_text := next((text for name in _TEXT_FIELDS if _is_text(text := _text_in(part.get(name)))), ""):
        return str(shown_text)
    if kind in CALL_KINDS or kind.endswith("tool_result"):
        return f"[{kind}] {_json({name: value for name, value in part.items() if name != 'type'})}"
    if kind in _TEXT_KINDS:
        if any(_text_in(part.get(name)) == "" for name in _TEXT_FIELDS):
            return ""
        further = {name: value for name, value in part.items() if name not in _UNREADABLE and value is not None}
        return f"[{kind}] {_json(further)}" if further else f"[{kind}]"
    named = " ".join(str(part[name]) for name in ("title", "url") if _is_text(part.get(name)))  # search results
    return named or f"[{kind}]"


def _has_more(part: Mapping[str, Any], kind: str, shown: str, *, called: bool) -> bool:
    """Return True if a block has texts that are neither shown nor, if it was `called`, in its call."""
    if kind in IMAGE_PARTS or kind == "redacted_thinking" or part.get("redacted") is True:
        return False
    known = _UNREADABLE | (_OF_CALLS if called else set())
    return any(text not in shown for name, value in part.items() if name not in known for text in _texts_in(value))


def _texts_in(value: Any) -> Iterator[str]:
    """Yield the texts of a value at any depth, without images."""
    if _is_text(value):
        yield value
    elif isinstance(value, Mapping) and value.get("type") not in IMAGE_PARTS:
        for inner in value.values():
            yield from _texts_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts_in(inner)


def _text_in(value: Any) -> Any:
    """Return the text of a field, also of an object with a text and annotations."""
    return value.get("value") if isinstance(value, Mapping) and set(value) <= {"value", "annotations"} else value


def _reasoning(part: Mapping[str, Any], kind: str) -> str:
    """Return the reasoning of a block, or its summary if only that may be read; empty if it was left out."""
    parts = [part.get("summary"), part.get("content")]
    lists = [piece for pieces in parts if isinstance(pieces, list) for piece in pieces if isinstance(piece, Mapping)]
    summary = parts[0] if _is_text(parts[0]) else "\n".join(str(piece["text"]) for piece in lists if piece.get("text"))
    if kind == "redacted_thinking" or part.get("redacted") is True:
        return str(summary or "[redacted]")
    reasoning = next((part[name] for name in _TEXT_FIELDS if _is_text(part.get(name))), summary)
    left_out = {"signature", "encrypted_content"} & part.keys()
    return str(reasoning) if reasoning or left_out else f"[{kind}]"


def _result(part: Mapping[str, Any], images: list[bytes], images_before: int) -> ToolResult:
    content, call_id = part.get("content"), part.get("tool_use_id")
    pieces = content if isinstance(content, list) else [content]
    texts = [_result_text(piece, images, images_before) for piece in pieces]
    failed = any(isinstance(piece, Mapping) and piece.get("error_code") for piece in pieces)  # the service's tools
    return ToolResult("" if call_id is None else str(call_id), "\n".join(texts), failed or part.get("is_error") is True)


def _result_text(piece: Any, images: list[bytes], images_before: int) -> str:
    if isinstance(piece, Mapping):
        if _is_text(piece.get("error_code")):
            return str(piece["error_code"])
        if isinstance(piece.get("type"), str):
            return _text(piece, piece["type"], images, images_before)
    return piece if isinstance(piece, str) else "" if piece is None else _json(piece)


def _json(value: Any) -> str:
    return json.dumps(without_embedded(value), ensure_ascii=False, default=str)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""
