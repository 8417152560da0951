"""Calls in Python's notation: what is a call is read, and anything else is left as it is for the policy to see."""

from __future__ import annotations

import json

import pytest

from envs.tools.families.pythonic_calls import LFM2, OLMO


def contents(blocks: list[str]) -> list[object]:
    """The calls of blocks as JSON values; texts that are not calls stay texts."""
    read: list[object] = []
    for block in blocks:
        inner = block.removeprefix("<tool_call>").removesuffix("</tool_call>").strip()
        try:
            read.append(json.loads(inner))
        except ValueError:
            read.append(block)
    return read


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        ('[search(query="a", top=3)]', {"query": "a", "top": 3}),
        ('[search({"query": "a"})]', {"query": "a"}),
        ("[search(flag=true, none=null)]", {"flag": True, "none": None}),
        ('search(query="a")', {"query": "a"}),
        ('{"name": "search", "arguments": {"query": "a"}}', {"query": "a"}),
    ],
)
def test_a_call_is_read(body: str, arguments: object) -> None:
    blocks = LFM2.blocks(f"<|tool_call_start|>{body}<|tool_call_end|>", {})
    assert contents(blocks) == [{"name": "search", "arguments": arguments}]


@pytest.mark.parametrize("body", ["search(query={1})", "a = 1", "1 + 1", "search(query="])
def test_code_that_is_no_call_with_literal_arguments_stays_as_it_is(body: str) -> None:
    assert OLMO.blocks(f"<function_calls>{body}</function_calls>", {}) == [body]


@pytest.mark.parametrize("arguments", ["1, 2", "**given", "query=other"])
def test_arguments_that_cannot_be_named_are_not_invented(arguments: str) -> None:
    (call,) = contents(OLMO.blocks(f"<function_calls>search({arguments})</function_calls>", {}))
    assert call == {"name": "search", "arguments": {}}, "of a tool without a definition"
