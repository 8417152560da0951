"""Calls in Python's notation: OLMo 3, one per line; LFM2, as a list."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence
from typing import Any

from envs.tools.calls import MAX_CALL, CallError, ToolCall, read_call
from envs.tools.families.call_family import CallFamily, Tools, call_block, first_json, json_text

_CALLS = re.compile(r"<function_calls>(.*?)(?:</function_calls>|(?=<function_calls>)|\Z)", re.DOTALL)
_LFM, _LFM_END = "<|tool_call_start|>", "<|tool_call_end|>"
_LISTS = re.compile(r"<\|tool_call_start\|>(.*?)(?:<\|tool_call_end\|>|(?=<\|tool_call_start\|>)|\Z)", re.DOTALL)
_CONSTANTS = {"true": True, "false": False, "null": None}


class _NotACallError(ValueError):
    """Code that is not a call with literal arguments."""


def _blocks(text: str, tools: Tools) -> list[str]:
    return [block for body in _CALLS.findall(text) if body.strip() for block in _read_calls(body.strip(), tools)]


def _read_calls(body: str, tools: Tools) -> list[str]:
    """Return the calls in a body, read as Python as a whole, since a text may have several lines; else line by line."""
    try:
        return [_python_call(statement) for statement in _statements(body)]
    except _NotACallError:
        return [_line(line.strip(), tools) for line in body.splitlines() if line.strip()]


def _listed_blocks(text: str, tools: Tools) -> list[str]:
    """Return calls of LFM2: a Python list of calls, or a JSON list of objects with `name` and `arguments`."""
    return [block for body in _LISTS.findall(text) if body.strip() for block in _listed_calls(body.strip(), tools)]


def _listed_calls(body: str, tools: Tools) -> list[str]:
    value_and_end = first_json(body)
    if value_and_end and not body[value_and_end[1] :].strip():
        return [
            json_text(part) for part in (value_and_end[0] if isinstance(value_and_end[0], list) else [value_and_end[0]])
        ]
    try:
        (statement,) = _statements(body)
        listed = statement.value if isinstance(statement, ast.Expr) else None
        calls = listed.elts if isinstance(listed, ast.List) else [listed]
        return [_python_call(ast.Expr(call)) for call in calls if call is not None]
    except ValueError:  # also for more than one statement
        return [_line(body.removeprefix("[").removesuffix("]").strip(), tools)]


def _statements(body: str) -> list[ast.stmt]:
    if len(body) > MAX_CALL:
        raise _NotACallError
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns about some literals
            return ast.parse(body).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _NotACallError from error


def _python_call(statement: ast.stmt) -> str:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name | ast.Attribute):
        raise _NotACallError
    arguments: dict[str, Any] = {}
    for argument in call.args:
        value = _literal(argument)
        if len(call.args) > 1 or not isinstance(value, dict):
            raise _NotACallError  # only the definition knows the argument's name
        arguments |= {str(key): item for key, item in value.items()}
    for keyword in call.keywords:
        if keyword.arg is None:
            raise _NotACallError
        arguments[keyword.arg] = _literal(keyword.value)
    try:
        return call_block(ast.unparse(call.func), arguments)
    except (TypeError, ValueError, RecursionError) as error:  # a value that JSON does not have
        raise _NotACallError from error


class _JsonConstants(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Constant(_CONSTANTS[node.id]) if node.id in _CONSTANTS else node


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(_JsonConstants().visit(node))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise _NotACallError from error


def _line(line: str, tools: Tools) -> str:
    try:
        call = read_call(line, tools)
    except CallError:
        return line
    return call_block(call.name, call.arguments) if call else line


def _text(calls: Sequence[ToolCall]) -> str:
    return "<function_calls>" + "\n".join(call.text() for call in calls) + "</function_calls>"


def _listed_text(calls: Sequence[ToolCall]) -> str:
    return f"{_LFM}[{', '.join(call.text() for call in calls)}]{_LFM_END}"


LFM2 = CallFamily(_LFM, ((_LFM,), ("<|tool_list_start|>",)), _listed_blocks, _listed_text)
OLMO = CallFamily("<function_calls>", (("<function_calls>",),), _blocks, _text)
