"""Calls as messages to a tool on a separate channel, in OpenAI's harmony format: gpt-oss."""

from __future__ import annotations

import re
from collections.abc import Sequence

from envs.tools.calls import ToolCall
from envs.tools.families.call_family import CallFamily, Tools, call_block, first_json, json_text

_CHANNEL, _MESSAGE, _CALL_END = "<|channel|>", "<|message|>", "<|call|>"
_START = "<|start|>assistant"
_CALL = re.compile(
    r"\bto=(?:functions\.)?([^\s<>{}\"']+)"  # the recipient, in the role or on the channel
    r"(?:[^<]|<\|(?:channel|constrain)\|>)*<\|message\|>"
    r"(.*?)(?:<\|(?:call|end|return|start)\|>|\Z)",
    re.DOTALL,
)


def _blocks(text: str, tools: Tools) -> list[str]:
    """Return calls with arguments as JSON. Text that is not JSON remains unchanged, and the policy gets an error."""
    blocks = []
    for name, body in _CALL.findall(text):
        written = body.strip()
        value_and_end = first_json(written)
        complete = value_and_end is not None and not written[value_and_end[1] :].strip()
        blocks.append(call_block(name, value_and_end[0] if value_and_end and complete else written))
    return blocks


def _text(calls: Sequence[ToolCall]) -> str:
    messages = (
        f" to=functions.{call.name}{_CHANNEL}commentary json{_MESSAGE}{json_text(call.arguments)}" for call in calls
    )
    return f"{_CALL_END}{_START}".join(messages)


GPT_OSS = CallFamily(f"{_CHANNEL}commentary", ((_CHANNEL, _CALL_END),), _blocks, _text)
