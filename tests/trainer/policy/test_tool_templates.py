"""Chat format with tools: definitions, calls and results as the templates of the families write them."""

import json

import pytest

import envs
from envs.base import ToolSpec
from tests.trainer import tiny
from tests.trainer.policy.tool_templates import tokenizers
from trainer.config.run import RunConfig
from trainer.policy.chat_format import ChatFormat
from trainer.rollout.prompts import opening_message

TOKENIZERS = tokenizers()
SCHEMA = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
TOOL = ToolSpec(name="price", description="Price of an item.", parameters=SCHEMA)
families = pytest.mark.parametrize("family", TOKENIZERS)


def bound(family: str, *, think: bool = True, call_format: str = "auto", tools: tuple[ToolSpec, ...] = (TOOL,)):
    return ChatFormat(TOKENIZERS[family], think=think, call_format=call_format).with_tools(tools)


def text_of(chat: ChatFormat, ids: list[int]) -> str:
    return chat.tokenizer.decode(ids)


@families
def test_the_format_of_calls_follows_from_the_template(family):
    chat = bound(family)
    assert (chat.call_format, chat.renders_tools, chat.renders_results) == (family, True, True)
    assert chat.call_notice == ""


@families
def test_the_opening_has_the_definitions_in_the_templates_own_words(family):
    chat = bound(family)
    opening = text_of(chat, chat.opening("How much is a lamp?"))
    assert opening.count("Price of an item.") == 1
    assert "How much is a lamp?" in opening
    assert opening.rstrip().endswith("<think>")
    without = bound(family, tools=())
    assert "Price" not in text_of(without, without.opening("How much is a lamp?"))


@families
def test_results_follow_a_call_as_the_template_renders_the_dialogue(family):
    """The whole dialogue, from its pieces, is what the template makes of its messages."""
    chat, question = bound(family), "How much is a lamp?"
    arguments: dict[str, str] | str = {"item": "lamp"}
    if family in ("deepseek_v3", "deepseek_v31", "hunyuan"):
        arguments = json.dumps(arguments)
    call = {"id": "call00000", "type": "function", "function": {"name": "price", "arguments": arguments}}
    dialogue = [
        *chat.system_messages(),
        {"role": "user", "content": question},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "price", "tool_call_id": "call00000", "content": 'It is "3"\nby day.'},
    ]
    whole = chat.tokenizer.apply_chat_template(
        dialogue, tools=[TOOL.definition()], tokenize=False, add_generation_prompt=True
    )
    after = text_of(chat, chat.between('It is "3"\nby day.', ended=True, role="tool"))
    assert whole.endswith(after.removesuffix("<think>"))
    assert "It is" in after
    assert "price" not in after, "it begins after the call's end token"


@families
def test_a_truncated_call_is_closed_before_its_result(family):
    chat = bound(family)
    ended, cut = (chat.between("3", ended=ended, role="tool") for ended in (True, False))
    assert cut == [chat.end_id("tool"), *ended]


@families
def test_a_state_after_an_answer_remains_a_message_of_the_user(family):
    chat, plain = bound(family), bound(family, tools=())
    assert chat.between("again", ended=True) == plain.between("again", ended=True)


@families
def test_without_thoughts_no_tag_is_forced(family):
    chat = bound(family, think=False)
    for ids in (chat.opening("x"), chat.between("3", ended=True, role="tool")):
        assert not text_of(chat, ids).endswith("<answer>")
    assert text_of(chat, bound(family, think=False, tools=()).opening("x")).endswith("<answer>")


@families
def test_calls_as_answers_leave_the_format_as_it_is(family):
    chat = ChatFormat(TOKENIZERS[family], think=True, call_format="answer")
    assert chat.with_tools((TOOL,)) is chat
    assert chat.with_tools(()) is chat


def test_a_template_without_tools_gets_them_as_text():
    tokenizer = tiny.styles()["chatml"]
    assert ChatFormat(tokenizer, think=True).call_format == "answer"
    chat = ChatFormat(tokenizer, think=True, call_format="hermes").with_tools((TOOL,))
    assert not chat.renders_tools
    assert chat.between("3", ended=True, role="tool") == chat.between("3", ended=True)


def test_the_setting_decides_about_the_format():
    config = RunConfig.model_validate({"rollout": {"tool_calls": "llama"}})
    assert ChatFormat.of_rollout(TOKENIZERS["hermes"], config.rollout).call_format == "llama"
    assert RunConfig().stable_dump() == RunConfig.model_validate({"rollout": {"tool_calls": "auto"}}).stable_dump()
    assert "tool_calls" not in RunConfig().stable_dump()["rollout"]


def test_the_task_describes_tools_unless_the_template_does():
    config = RunConfig()
    spec = envs.spec("Countdown").model_copy(update={"tools": (TOOL,)})
    answers = opening_message(spec, config.rollout)
    assert "Tools:\nprice(item): Price of an item.\n" in answers
    assert "<answer>a call or your answer" in answers
    native = opening_message(spec, config.rollout, chat=bound("hermes"))
    assert "Price of an item." not in native
    assert "Answer: <think>thought</think>a call, or <think>thought</think><answer>your answer</answer>" in native
    plain = ChatFormat(tiny.styles()["chatml"], think=True, call_format="hermes").with_tools((TOOL,))
    assert "Call a tool as in <tool_call>" in opening_message(spec, config.rollout, chat=plain)
