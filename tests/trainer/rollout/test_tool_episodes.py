"""Episodes with tools: what is sampled and what is read, in every format of calls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.tools.call_formats import render_calls
from envs.tools.calls import ToolCall
from tests.trainer import tiny
from tests.trainer.policy.tool_templates import tokenizers
from trainer.config.run import RunConfig
from trainer.imitation.demonstrations import demonstrate
from trainer.policy.chat_format import ChatFormat
from trainer.rollout.trajectory import collate

TOKENIZERS = tokenizers() | {"answer": tiny.styles()["pocket"]}
CALL = ToolCall("calculator", {"expression": "6 * 7"})
QUESTION = {"question": "What is 6 * 7?", "answer": "42"}
formats = pytest.mark.parametrize("call_format", TOKENIZERS)


def run_config(**rollout):
    return RunConfig.model_validate({"environment": {"name": "ToolCalculator"}, "rollout": rollout})


def start(call_format, *, think=True, **rollout):
    chat = ChatFormat(TOKENIZERS[call_format], think=think)
    return tiny.episode(chat, run_config(think=think, **rollout), options=QUESTION)


def called(call_format, calls=(CALL,), *, think=True):
    thought = "so</think>" if think else ""
    if call_format == "answer":
        return f"{thought}{'<answer>' if think else ''}{render_calls(calls, call_format)}</answer>"
    return thought + render_calls(calls, call_format)


def respond(episode, text):
    prompt = list(episode.prompt())
    response = tiny.sampled(episode.chat, text)
    return prompt, response, episode.receive(response)


@formats
@pytest.mark.parametrize("think", [True, False])
def test_calls_are_learned_and_results_are_read(call_format, think):
    """The mask holds the call and the answer; the result is a part of the next prompt."""
    episode = start(call_format, think=think)
    first, call, turn = respond(episode, called(call_format, think=think))
    record = turn.actions[0].call
    assert (record.tool, record.arguments, record.result) == ("calculator", CALL.arguments, "42")
    assert (turn.format_valid, turn.problem, turn.actions[0].reward) == (True, None, 0.0)
    tag = "" if not think and call_format == "answer" else "<answer>"
    second, answer, turn = respond(episode, f"{'so</think>' if think else ''}{tag}42</answer>")
    assert (turn.reward, episode.trajectory.success) == (1.0, True)
    assert turn.actions[0].call is None
    assert "Turn 2:\n42\nActions left: 3" in episode.chat.tokenizer.decode(second).replace("\\n", "\n")

    trajectory = episode.trajectory
    assert trajectory.ids == [*first, *call.ids, *second, *answer.ids]
    batch = collate([trajectory], pad_id=0)
    expected = [False] * len(first) + [True] * len(call.ids) + [False] * len(second) + [True] * len(answer.ids)
    assert batch.mask[0].tolist() == expected


@formats
def test_the_policy_reads_the_definition_of_the_tool_once(call_format):
    episode = start(call_format)
    text = episode.chat.tokenizer.decode(episode.prompt())
    assert text.count("Value of an arithmetic expression") == 1
    assert text.count("What is 6 * 7?") == 1


@formats
def test_the_result_of_a_bad_call_is_its_reason(call_format):
    episode = start(call_format)
    turn = respond(episode, called(call_format, [ToolCall("abacus", {})]))[2]
    assert (turn.format_valid, turn.actions[0].call.failed) == (True, True)
    assert "there is no tool" in episode.state


def test_a_call_that_cannot_be_read_is_answered_too():
    episode = start("hermes")
    turn = respond(episode, 'so</think><tool_call>{"name": "calculator", "arguments": {</tool_call>')[2]
    assert turn.actions[0].call.failed
    assert "Error: the call is not valid JSON" in episode.state


@formats
def test_several_calls_of_a_turn_are_executed_and_answered_together(call_format):
    episode = start(call_format, max_actions_per_turn=3)
    calls = [CALL, ToolCall("calculator", {"expression": "1 + 1"})]
    turn = respond(episode, called(call_format, calls))[2]
    assert [action.call.result for action in turn.actions] == ["42", "2"]
    assert "1. calculator: 42\n2. calculator: 2\n" in episode.state


@formats
def test_a_window_of_turns_begins_with_the_task_and_the_definitions(call_format):
    episode = start(call_format, context_turns=1)
    respond(episode, called(call_format))
    assert episode.resets_prompt
    text = episode.chat.tokenizer.decode(episode.prompt())
    assert text.count("Value of an arithmetic expression") == 1
    assert "What is 6 * 7?" not in text


@formats
@given(seed=st.integers(0, 1000))
def test_demonstrations_are_written_in_the_format_of_the_family(call_format, seed):
    chat = ChatFormat(TOKENIZERS[call_format], think=True)
    shown = demonstrate(run_config(), chat, seed, noise=0.0, mistake_rate=0.0, context=2**20).trajectory
    assert shown.success
    assert [bool(turn.actions[0].call) for turn in shown.turns] == [True, False]
    assert all(turn.format_valid for turn in shown.turns)
