"""Texts of a turn in players: the parts of a response besides its thought and actions, and further fields.

static/js/ui/turn_text.js does the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from webapp.core import formatting
from webapp.core.output_budget import json_text

_THINK_END, _ANSWER, _ANSWER_END = "</think>", "<answer>", "</answer>"
_THOUGHT_TO_ANSWER = re.compile(r"</think>\s*<answer>")
_TAG = re.compile(r"</?(?:think|answer)>|<\|im_(?:start|end)\|>")
_ACTION_SEPARATOR = "||"
_OPENED = re.compile(r"<think>\s*$")
_CLOSED = re.compile(r"^\s*</think>")
_LINE_ENDS = "\r\n"
MAX_EXTRA = 8000
"""Maximum number of characters of further fields on a page; as in static/js/ui/turn_text.js."""


def response_text(turn: Mapping[str, Any]) -> str:
    """Return the response without the parts that the turn shows elsewhere.

    Left out are the thought with its tags, lines with the text of a call, and a response that is the name of the only
    action. White space within the text is kept.
    """
    text: str = turn.get("response") or ""
    thought, actions = turn.get("thought") or "", turn.get("actions") or []
    if thought:
        head, match, tail = text.partition(thought)
        text = _OPENED.sub("", head) + _CLOSED.sub("", tail) if match else text
    for action in actions:
        if action.get("call"):
            text = f"\n{text}\n".replace(f"\n{action['text']}\n", "\n", 1)[1:-1]
    text = text.strip(_LINE_ENDS)
    only = actions[0] if len(actions) == 1 else {}
    return "" if only and text.strip() in (only["text"], only.get("name")) else text


def extra_text(extra: Mapping[str, Any] | None, actions: Iterable[Mapping[str, Any]] = ()) -> str:
    """Return further fields that a recorder added, as indented JSON; empty without any.

    With `actions`, tool calls that the actions show are left out.
    """
    called = any(action.get("call") for action in actions)
    fields = {name: value for name, value in (extra or {}).items() if not called or name != "tool_calls"}
    if not fields:
        return ""
    text = json_text(_as_in_scripts(fields), indent=2)
    if len(text) <= MAX_EXTRA:
        return text
    return f"{text[:MAX_EXTRA]}…\n{len(text) - MAX_EXTRA:,} more characters are in the export."


def _as_in_scripts(value: Any) -> Any:
    """Return the value with numbers in JavaScript's notation: 1 and not 1.0."""
    if isinstance(value, dict):
        return {name: _as_in_scripts(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_as_in_scripts(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value


def problem_label(turn: Mapping[str, Any]) -> str:
    """Return the subject of the turn's problem: its format if it was judged invalid, or else its answer."""
    return "Format" if turn.get("format_valid") is False else "Answer"


@dataclass(frozen=True)
class FoldedPart:
    """Part of a response that a turn shows folded.

    Attributes:
        start, end: in code points of the response; white space at the ends is left out.
        place: description of its position, such as "after the answer".
        text: text of the part.
        label: summary with its length, in tokens if they are known, or else in characters.
    """

    start: int
    end: int
    place: str
    text: str
    label: str


def folded_parts(turn: Mapping[str, Any]) -> list[FoldedPart]:
    """Return the parts of our trainer's response that neither the thought nor the actions of its turn show.

    These are text between thought and answer, actions beyond the limit of a turn, and text after the answer; without an
    answer, everything after the thought. There are none if the turn shows the whole response. `folded_tokens` of the
    turn, if present, has the number of tokens of each part.
    """
    response: str = turn.get("response") or ""
    known: list[int] = turn.get("folded_tokens") or []
    parts: list[FoldedPart] = []
    for start, end, place in _unshown(turn, response):
        text = response[start:end]
        start += len(text) - len(text.lstrip())
        if text := text.strip():
            tokens = known[len(parts)] if len(parts) < len(known) else 0
            count, unit = (tokens, "more token") if tokens else (len(text), "more character")
            label = f"… {formatting.plural(count, unit)} {place}"
            parts.append(FoldedPart(start, start + len(text), place, text, label))
    return parts


def _unshown(turn: Mapping[str, Any], response: str) -> list[tuple[int, int, str]]:
    """Return (start, end, place) of each part, in the order of the response."""
    thought, actions = turn.get("thought") or "", turn.get("actions") or []
    if not thought and turn.get("format_valid") is False:
        return []
    whole = len(response)
    called = any(action.get("call") for action in actions)
    border = None if called else _THOUGHT_TO_ANSWER.search(response)
    closed = border.start() if border and _ANSWER_END in response[border.end() :] else response.find(_THINK_END)
    if thought or (closed >= 0 and not _TAG.sub("", response[:closed]).strip()):
        if closed < 0:
            return []
        rest = closed + len(_THINK_END)
        opened = response.find(_ANSWER, rest)
        begin = opened + len(_ANSWER)
    else:
        rest = opened = begin = 0
    end = response.find(_ANSWER_END, begin) if opened >= 0 else -1
    if end < 0 or not (turn.get("answer") or actions):
        return [(rest, whole, "after the thought" if rest else "in the response")]
    parts = [(rest, opened, "between thought and answer")]
    if actions and not called:
        further = _end_of_actions(response, begin, end, len(actions))
        parts.append((further, end, "in the answer, beyond the turn's limit"))
    return [*parts, (end + len(_ANSWER_END), whole, "after the answer")]


def _end_of_actions(response: str, begin: int, end: int, count: int) -> int:
    """Return the end of the first `count` actions of an answer: `end` if it has no more. Stray tags are not actions."""
    at = begin
    for piece in response[begin:end].split(_ACTION_SEPARATOR):
        if _TAG.sub("", piece).strip():
            if not count:
                return at
            count -= 1
        at += len(piece) + len(_ACTION_SEPARATOR)
    return end
