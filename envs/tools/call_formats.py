"""Formats in which families of models write tool calls, and the choice of one for a chat template.

| format | families | a call |
| --- | --- | --- |
| `hermes` | Hermes, Qwen2.5, Qwen3, Granite 4 | `<tool_call>{"name": …, "arguments": {…}}</tool_call>` |
| `qwen3_coder` | Qwen3-Coder | `<tool_call><function=…><parameter=…>…</parameter></function></tool_call>` |
| `llama` | Llama 3.1 to 3.3 | `{"name": …, "parameters": {…}}`, also after `<|python_tag|>` |
| `mistral` | Mistral | `[TOOL_CALLS] [{"name": …, "arguments": {…}}]`, or `[TOOL_CALLS]name[ARGS]{…}` |
| `glm` | GLM 4.5 | `<tool_call>name <arg_key>…</arg_key> <arg_value>…</arg_value></tool_call>` |
| `minimax` | MiniMax M2 | `<minimax:tool_call><invoke name="…"><parameter name="…">…</parameter></invoke>…` |
| `seed_oss` | Seed-OSS | `<seed:tool_call><function=…><parameter=…>…</parameter></function></seed:tool_call>` |
| `granite` | Granite 3 | `<|tool_call|>[{"name": …, "arguments": {…}}]` |
| `phi4_mini` | Phi-4-mini | `<|tool_call|>[{"name": …, "arguments": {…}}]<|/tool_call|>` |
| `deepseek_v3`, `deepseek_v31` | DeepSeek V3 and R1, V3.1 | name and JSON between tokens such as `<｜tool▁sep｜>` |
| `olmo3` | OLMo 3 | `<function_calls>name(argument="value")</function_calls>` |
| `hunyuan` | Hunyuan | `<tool_calls><tool_call>name`, JSON in a fence, `</tool_call></tool_calls>` |
| `lfm2` | LFM2, LFM2.5 | `<|tool_call_start|>[name(argument="value")]<|tool_call_end|>` |
| `command` | Command R7B, Command A | `<|START_ACTION|>[{"tool_name": …, "parameters": {…}}]<|END_ACTION|>` |
| `gemma4` | Gemma 4 | `<|tool_call>call:name{argument:<|"|>value<|"|>}<tool_call|>` |
| `gpt_oss` | gpt-oss | `to=functions.name<|channel|>commentary json<|message|>{…}`, then `<|call|>` |
| `answer` | any, and the pocket policy | `<answer>name(argument=value)</answer>` |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, get_args

from envs.base import ToolSpec
from envs.tools.calls import CallError, ToolCall, exact_text, read_object, readable_call
from envs.tools.families import fenced_calls, gemma_calls, harmony_calls, json_calls, pythonic_calls, tagged_calls
from envs.tools.families.call_family import MAX_CALLS, CallFamily, call_block, json_text

__all__ = ["CALL_FORMATS", "MAX_CALLS", "CallFormat", "action_of_call", "candidate_formats", "fitting_format"]

CallFormat = Literal[
    "answer",
    "hermes",
    "qwen3_coder",
    "llama",
    "mistral",
    "glm",
    "minimax",
    "seed_oss",
    "phi4_mini",
    "granite",
    "deepseek_v3",
    "deepseek_v31",
    "olmo3",
    "hunyuan",
    "lfm2",
    "command",
    "gemma4",
    "gpt_oss",
]
CALL_FORMATS: tuple[CallFormat, ...] = get_args(CallFormat)

_FAMILIES: dict[CallFormat, CallFamily] = {
    "hermes": json_calls.HERMES,
    "qwen3_coder": json_calls.QWEN3_CODER,
    "llama": json_calls.LLAMA,
    "mistral": json_calls.MISTRAL,
    "glm": tagged_calls.GLM,
    "minimax": tagged_calls.MINIMAX,
    "seed_oss": tagged_calls.SEED,
    "phi4_mini": json_calls.PHI,
    "granite": json_calls.GRANITE,
    "deepseek_v3": fenced_calls.DEEPSEEK_V3,
    "deepseek_v31": fenced_calls.DEEPSEEK_V31,
    "olmo3": pythonic_calls.OLMO,
    "hunyuan": fenced_calls.HUNYUAN,
    "lfm2": pythonic_calls.LFM2,
    "command": json_calls.COMMAND,
    "gemma4": gemma_calls.GEMMA4,
    "gpt_oss": harmony_calls.GPT_OSS,
}
"""All formats except `answer`, for which the response parser reads calls."""


def candidate_formats(template: str) -> list[CallFormat]:
    """Return the formats with marks in a chat template, in the order of the table above."""
    return [name for name, family in _FAMILIES.items() if family.marks(template)]


def fitting_format(
    formats: Iterable[CallFormat], rendered: str, calls: Sequence[ToolCall], tools: Sequence[ToolSpec]
) -> CallFormat | None:
    """Return the format in which a chat template has written these calls; None if no format reads them exactly.

    If several formats read them, the one that also writes them in the same way is returned, white space aside.

    Args:
        formats: formats to choose from.
        rendered: a response with the calls, as rendered by the template.
        calls: rendered calls.
        tools: definitions of the called tools.
    """
    specs = {tool.name: tool for tool in tools}
    readers = [
        name
        for name in formats
        if [readable_call(action, specs) for action in parse_calls(rendered, name, tools)] == list(calls)
    ]
    alike = [name for name in readers if _compact(render_calls(calls, name)) in _compact(rendered)]
    return next(iter([*alike, *readers]), None)


def _compact(text: str) -> str:
    return "".join(text.split())


def parse_calls(text: str, call_format: CallFormat, tools: Sequence[ToolSpec] = ()) -> list[str]:
    """Return the calls in a response, in order, as the actions that environments read; empty if there are none.

    A call that cannot be read remains as written, so that the environment reports the error to the policy. Never
    raises.

    Args:
        text: the response after its thought, without the end token.
        call_format: format of a model family; in the format `answer`, the response parser reads the calls.
        tools: tools of the environment.
    """
    if call_format == "answer":
        return []
    family = _FAMILIES[call_format]
    blocks = family.blocks(text, {tool.name: tool for tool in tools})
    return [_action(block, family.mark, tools) for block in blocks[:MAX_CALLS]]


def action_of_call(name: str, arguments: str, tools: Sequence[ToolSpec]) -> str:
    """Return the action of a call that an API reports in parts: the tool's name, and the arguments as a JSON text.

    An unreadable call remains as reported, as in `parse_calls`.
    """
    return _action(call_block(name, arguments), json_calls.HERMES.mark, tools)


def _action(block: str, mark: str, tools: Sequence[ToolSpec]) -> str:
    """Return the action of a JSON object, or the text after its mark if it is not one."""
    try:
        call = read_object(block.strip())
    except CallError:
        return f"{mark}{block.strip()}"
    return exact_text(call, {tool.name: tool for tool in tools})


def render_calls(calls: Sequence[ToolCall], call_format: CallFormat) -> str:
    """Write calls as a model of the family does, for demonstrations."""
    if call_format == "answer":
        return " || ".join(call.text() for call in calls)
    return _FAMILIES[call_format].write(calls)


_EXAMPLE = ToolCall("name", {"argument": "value"})


def tools_as_text(tools: Sequence[ToolSpec], call_format: CallFormat) -> str:
    """Write the tools as lines of a prompt, with an example of a call, for templates that render none."""
    if call_format == "answer":
        return "\n".join(["Tools:", *(f"{_signature(tool)}: {tool.description}" for tool in tools)])
    lines = ["Tools, as JSON schemas:", *(json_text(tool.definition()) for tool in tools)]
    return "\n".join([*lines, f"Call a tool as in {render_calls([_EXAMPLE], call_format)}"])


def _signature(tool: ToolSpec) -> str:
    required = tool.parameters.get("required")
    optional = [name for name in tool.properties if isinstance(required, list) and name not in required]
    return f"{tool.name}({', '.join(f'{name}?' if name in optional else name for name in tool.properties)})"
