"""Calls with arguments between tags, without quotation marks: Qwen3-Coder, Seed-OSS, MiniMax M2, GLM 4.5."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from envs.tools.calls import ToolCall
from envs.tools.families.call_family import CallFamily, Tools, call_block, json_text, plain_value

_NAME = r"[^\s<>{}\"']+"


@dataclass(frozen=True)
class Tags:
    """Notation of one call and its arguments.

    Attributes:
        head: the name, as its first group, up to the first argument.
        argument: name and value of an argument, as its two groups.
        tail: possible text after the last argument.
        padded: True if values are on separate lines.
    """

    head: re.Pattern[str]
    argument: re.Pattern[str]
    tail: re.Pattern[str]
    padded: bool = False

    def call(self, text: str, tools: Tools) -> str:
        """Return the call as a JSON object; empty if the text is not a call, or an argument is not closed."""
        if not (head := self.head.match(text)):
            return ""
        name, position = head[1], head.end()
        properties = tools[name].properties if name in tools else {}
        arguments: dict[str, Any] = {}
        while match := self.argument.match(text, position):
            key, value = match[1].strip(), match[2]
            if self.padded:
                value = value.removeprefix("\n").removesuffix("\n")
            arguments[key] = plain_value(value, properties.get(key))
            position = match.end()
        return call_block(name, arguments) if self.tail.fullmatch(text, position) else ""


FUNCTION_TAGS = Tags(
    re.compile(rf"\s*<function=({_NAME})\s*>"),
    re.compile(r"\s*<parameter=([^>\s]+)\s*>(.*?)</parameter>", re.DOTALL),
    re.compile(r"\s*(?:</function>\s*)?"),
    padded=True,
)
_SEED_TAGS = Tags(FUNCTION_TAGS.head, FUNCTION_TAGS.argument, FUNCTION_TAGS.tail)
_INVOKE_TAGS = Tags(
    re.compile(rf"\s*<invoke\s+name=[\"']?({_NAME})[\"']?\s*>"),
    re.compile(r"\s*<parameter\s+name=[\"']?([^\s<>\"']+)[\"']?\s*>(.*?)</parameter>", re.DOTALL),
    re.compile(r"\s*(?:</invoke>\s*)?"),
)
_ARGUMENT_TAGS = Tags(
    re.compile(rf"\s*({_NAME})"),
    re.compile(r"\s*<arg_key>([^<]*)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL),
    re.compile(r"\s*"),
)

_GLM = re.compile(r"<tool_call>(.*?)(?:</tool_call>|(?=<tool_call>)|\Z)", re.DOTALL)
_SEED = re.compile(r"<seed:tool_call>(.*?)(?:</seed:tool_call>|(?=<seed:tool_call>)|\Z)", re.DOTALL)
_MINIMAX = re.compile(r"<minimax:tool_call>(.*?)(?:</minimax:tool_call>|(?=<minimax:tool_call>)|\Z)", re.DOTALL)
_NEXT_INVOKE = re.compile(r"(?=<invoke\s)")


def _glm_blocks(text: str, tools: Tools) -> list[str]:
    return [_ARGUMENT_TAGS.call(block, tools) or block for block in _GLM.findall(text)]


def _seed_blocks(text: str, tools: Tools) -> list[str]:
    return [_SEED_TAGS.call(block, tools) or block for block in _SEED.findall(text)]


def _minimax_blocks(text: str, tools: Tools) -> list[str]:
    """Return calls within `<minimax:tool_call>`, which may contain several."""
    invocations = [part for block in _MINIMAX.findall(text) for part in _NEXT_INVOKE.split(block) if part.strip()]
    return [_INVOKE_TAGS.call(part, tools) or part for part in invocations]


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json_text(value)


def _qwen_call(call: ToolCall) -> str:
    parameters = (f"<parameter={key}>\n{_plain(value)}\n</parameter>\n" for key, value in call.arguments.items())
    return f"<tool_call>\n<function={call.name}>\n{''.join(parameters)}</function>\n</tool_call>"


def _seed_call(call: ToolCall) -> str:
    parameters = (f"<parameter={key}>{_plain(value)}</parameter>\n" for key, value in call.arguments.items())
    return f"<seed:tool_call>\n<function={call.name}>\n{''.join(parameters)}</function>\n</seed:tool_call>"


def _glm_call(call: ToolCall) -> str:
    arguments = (
        f"<arg_key>{key}</arg_key>\n<arg_value>{_plain(value)}</arg_value>\n" for key, value in call.arguments.items()
    )
    return f"<tool_call>{call.name}\n{''.join(arguments)}</tool_call>"


def _invocation(call: ToolCall) -> str:
    parameters = (f'<parameter name="{key}">{_plain(value)}</parameter>\n' for key, value in call.arguments.items())
    return f'<invoke name="{call.name}">\n{"".join(parameters)}</invoke>\n'


def qwen3_coder_text(calls: Sequence[ToolCall]) -> str:
    """Write calls as Qwen3-Coder does."""
    return "\n".join(map(_qwen_call, calls))


def _seed_text(calls: Sequence[ToolCall]) -> str:
    return "\n".join(map(_seed_call, calls))


def _glm_text(calls: Sequence[ToolCall]) -> str:
    return "\n".join(map(_glm_call, calls))


def _minimax_text(calls: Sequence[ToolCall]) -> str:
    return f"<minimax:tool_call>\n{''.join(map(_invocation, calls))}</minimax:tool_call>"


SEED = CallFamily("<seed:tool_call>", (("<seed:tool_call>",),), _seed_blocks, _seed_text)
GLM = CallFamily("<tool_call>", (("<tool_call>", "<arg_key>"),), _glm_blocks, _glm_text)
MINIMAX = CallFamily("<minimax:tool_call>", (("<minimax:tool_call>",),), _minimax_blocks, _minimax_text)
