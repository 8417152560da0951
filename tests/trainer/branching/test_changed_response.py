"""Recorded responses with another thought or answer, with and without thoughts and tools."""

from __future__ import annotations

import pytest

import envs
from tests.trainer import tiny
from tests.trainer.policy.tool_templates import tokenizers
from trainer.branching.changed_response import ChangeError, check_text, split_response, with_answer
from trainer.policy.chat_format import ChatFormat

POCKET = tiny.styles()["pocket"]
TOOLS = envs.spec("ToolCalculator").tools
CALLING = next(
    name for name, tokenizer in tokenizers().items() if ChatFormat(tokenizer, think=True).with_tools(TOOLS).tools
)


def test_another_thought_keeps_the_blanks_and_the_border():
    chat = ChatFormat(POCKET, think=True)
    parts = split_response("\nI go left.\n</think>\n<answer>Left</answer>", chat)
    assert parts.complete
    assert parts.beginning == "\nI go left.\n</think>\n<answer>"
    assert parts.with_thought("Right, then.") == "\nRight, then.\n</think>\n<answer>"
    assert with_answer(parts.beginning, "Up", chat) == "\nI go left.\n</think>\n<answer>Up</answer>"


def test_a_response_that_breaks_the_format_gets_the_usual_border():
    chat = ChatFormat(POCKET, think=True)
    for text in ("I go left", "I go left</think>Left", "<answer>Left</answer>"):
        parts = split_response(text, chat)
        assert not parts.complete
        assert parts.with_thought("so") == "so</think><answer>"


def test_without_thoughts_the_answer_is_the_response():
    chat = ChatFormat(POCKET, think=False)
    parts = split_response("Left</answer>", chat)
    assert with_answer(parts.beginning, "Up", chat) == "Up</answer>"


def test_with_tools_the_answer_is_all_behind_the_thought():
    chat = ChatFormat(tokenizers()[CALLING], think=True).with_tools(TOOLS)
    answered = split_response("so</think><answer>42</answer>", chat)
    called = split_response("so</think>\n[a call]", chat)
    assert called.complete
    assert called.with_thought("hm") == "hm</think>"
    for parts in (answered, called):
        assert with_answer(parts.beginning, "[another call]", chat) == "so</think>[another call]"


@pytest.mark.parametrize(
    ("text", "what", "found"),
    [
        ("a<answer>b", "thought", "<answer>"),
        ("Up</answer>", "answer", "</answer>"),
        ("<|im_end|>", "state", "<|im_end|>"),
    ],
)
def test_texts_that_would_end_something_are_refused(text, what, found):
    chat = ChatFormat(POCKET, think=True)
    with pytest.raises(ChangeError) as error:
        check_text(text, what, chat)
    assert f"the changed {what} contains {found}" in str(error.value)
    check_text("Turn 1: <answer> is a tag", "state", chat)
