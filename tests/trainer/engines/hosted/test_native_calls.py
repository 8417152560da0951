"""Native calls of hosted models, against a real server: definitions, calls and results in the API's own fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.trainer import tiny
from tests.trainer.hosted_server import Reply, Server, call, calling, completion, in_turn, refusal
from tests.trainer.loops.test_train import events
from trainer.config.run import RunConfig
from trainer.engines.hosted import completion as parser
from trainer.engines.hosted.completion import NotACompletionError, ReportedCall
from trainer.engines.hosted.hosted_client import RefusedError
from trainer.journal.events import GroupStarted, RunFinished, TrajectoryFinished, Turn
from trainer.loops import run_factory
from trainer.policy.chat_format import NOT_EXECUTED

SUM = call("calculator", {"expression": "1 + 1"})
THOUGHT = "<think>I add.</think>"
ANSWER = completion(f"{THOUGHT}<answer>2</answer>")


def settings(server: Server, **sections: Any) -> RunConfig:
    """One episode of the calculator, of up to four turns."""
    data: dict[str, Any] = {
        "kind": "evaluate",
        "environment": {"name": "ToolCalculator", "settings": {"max_calls": 4}},
        "evaluation": {"prompts": 1, "samples_per_prompt": 1, "suites": []},
        "rollout": {"tool_calls": "native", "max_turns": 4, "max_actions": 5},
        "hosted": {"url": server.url, "model": "m"},
    }
    for name, value in sections.items():
        data[name] = data[name] | value
    return tiny.config("pocket", **data)


def play(folder: Path, *replies: Reply, **sections: Any) -> list[dict[str, Any]]:
    """Play with these replies, the last one repeated. Returns the requests."""
    with Server(in_turn(*replies)).running() as server:
        end: RunFinished = run_factory.run(settings(server, **sections), folder, folder / "cache")
    assert end.reason == "completed"
    return server.bodies


def test_tools_are_defined_in_their_field_and_called_in_another(tmp_path: Path) -> None:
    first, second = play(tmp_path, calling(SUM), ANSWER)
    (definition,) = first["tools"]
    assert (definition["type"], definition["function"]["name"]) == ("function", "calculator")
    assert definition["function"]["parameters"]["required"] == ["expression"]
    assert definition["function"]["description"] not in first["messages"][1]["content"]
    assert second["tools"] == first["tools"]
    repeated, result = second["messages"][2:]
    assert repeated == {"role": "assistant", "content": None, "tool_calls": [SUM]}
    assert (result["role"], result["tool_call_id"]) == ("tool", "call_a")
    assert "Turn 2:\n2\nActions left: 4" in result["content"]

    turns = events(tmp_path, Turn)
    record = turns[0].actions[0]
    assert (record.text, record.call.result) == ('calculator(expression="1 + 1")', "2")
    assert [(turn.format_valid, turn.problem) for turn in turns] == [(True, None)] * 2
    written = '<tool_call>{"name": "calculator", "arguments": {"expression": "1 + 1"}}</tool_call>'
    assert turns[0].response == written
    assert turns[1].state == result["content"]
    (group,) = events(tmp_path, GroupStarted)
    assert [tool.name for tool in group.tools or ()] == ["calculator"]


def test_text_beside_a_call_is_the_thought_and_sent_back(tmp_path: Path) -> None:
    _, second = play(tmp_path, calling(SUM, text=THOUGHT), ANSWER)
    assert second["messages"][2] == {"role": "assistant", "content": THOUGHT, "tool_calls": [SUM]}
    assert events(tmp_path, Turn)[0].thought == "I add."


@pytest.mark.parametrize(
    ("made", "sent_back", "problem"),
    [
        (call("calculator", '{"expression": "1 +'), '{"unreadable": "{\\"expression\\": \\"1 +"}', "not valid JSON"),
        (call("calculator", "[1]"), '{"unreadable": "[1]"}', '"arguments" must be an object'),
        (
            call("calculator", '{"expression": NaN}'),
            '{"unreadable": "{\\"expression\\": NaN}"}',
            "NaN is no JSON value",
        ),
        (call("calculator", "[" * 30_000), json.dumps({"unreadable": "[" * 30_000}), "at most 20000 are read"),
        (call("calculator", '{"expression": "\\ud800"}'), '{"expression": "\\ud800"}', "'?' is not allowed"),
        (call("calculator", ""), "{}", "needs the argument 'expression'"),
        (call("calculator", {"text": "1"}), '{"text": "1"}', "needs the argument 'expression'"),
        (call("abacus", {}), "{}", "there is no tool 'abacus': choose calculator"),
        (call("my abacus", {}), "{}", "there is no tool 'my abacus': choose calculator"),
        (call("", {}), "{}", 'the call has no "name"'),
    ],
)
def test_a_bad_call_is_recorded_and_answered_with_the_reason(
    tmp_path: Path, made: dict[str, Any], sent_back: str, problem: str
) -> None:
    _, second = play(tmp_path, calling(made), ANSWER)
    repeated, result = second["messages"][2:]
    assert repeated["tool_calls"][0]["function"]["arguments"] == sent_back
    assert problem in result["content"]
    turn = events(tmp_path, Turn)[0]
    assert turn.actions[0].call.failed
    assert turn.response.startswith(f'<tool_call>{{"name": {json.dumps(made["function"]["name"])}, "arguments": ')
    assert events(tmp_path, TrajectoryFinished)[0].end == "terminated"  # the episode went on to the answer


def test_an_entry_that_is_no_call_is_answered_too(tmp_path: Path) -> None:
    _, second = play(tmp_path, calling({"id": "call_a", "type": "custom", "custom": {"name": "x"}}), ANSWER)
    repeated, result = second["messages"][2:]
    assert repeated["tool_calls"][0]["function"]["name"] == "unnamed"
    assert (result["tool_call_id"], 'the call has no "name"' in result["content"]) == ("call_a", True)


def test_several_calls_have_a_result_each_and_those_beyond_the_limit_a_reason(tmp_path: Path) -> None:
    calls = [call("calculator", {"expression": f"{n} + {n}"}, f"call_{n}") for n in (1, 2, 3)]
    limited = {"max_actions_per_turn": 2}
    _, second = play(tmp_path, calling(*calls), ANSWER, rollout=limited)
    results = second["messages"][3:]
    assert [result["tool_call_id"] for result in results] == ["call_1", "call_2", "call_3"]
    assert {result["role"] for result in results} == {"tool"}
    assert [result["content"] for result in results][::2] == ["2", NOT_EXECUTED]
    assert "Turn 2:\n4\nActions left: 3" in results[1]["content"]
    first = events(tmp_path, Turn)[0]
    assert [action.call.result for action in first.actions] == ["2", "4"]
    assert "3 + 3" in first.response


def test_a_window_of_turns_keeps_calls_with_their_results(tmp_path: Path) -> None:
    calls = [calling(call("calculator", {"expression": str(n)}, f"call_{n}")) for n in (1, 2, 3)]
    bodies = play(tmp_path, *calls, ANSWER, rollout={"context_turns": 2})
    assert all(body["tools"] for body in bodies)
    *_, repeated, result = bodies[-1]["messages"]
    assert [message["role"] for message in bodies[-1]["messages"]] == ["system", "user", "assistant", "tool"]
    assert repeated["tool_calls"][0]["id"] == result["tool_call_id"] == "call_3"


def test_a_response_with_neither_a_call_nor_an_answer_has_an_invalid_format(tmp_path: Path) -> None:
    written = '<tool_call>{"name": "calculator", "arguments": {"expression": "1"}}</tool_call>'
    _, second, *_ = play(tmp_path, completion(f"{THOUGHT}{written}"), ANSWER)
    first = events(tmp_path, Turn)[0]
    assert (first.format_valid, first.actions) == (False, [])
    assert first.problem == "there is neither a call nor an <answer>"
    assert [message["role"] for message in second["messages"][2:]] == ["assistant", "user"]


def test_a_call_written_as_an_answer_is_executed_and_its_result_is_the_users_message(tmp_path: Path) -> None:
    _, second = play(tmp_path, completion(f"{THOUGHT}<answer>calculator(1 + 1)</answer>"), ANSWER)
    assert [message["role"] for message in second["messages"][2:]] == ["assistant", "user"]
    assert "Turn 2:\n2\n" in second["messages"][3]["content"]


def test_environments_without_tools_are_played_as_before(tmp_path: Path) -> None:
    up = completion(f"{THOUGHT}<answer>Up</answer>")
    bodies = play(tmp_path, up, environment={"name": "Sokoban", "settings": {}})
    assert all("tools" not in body for body in bodies)
    assert events(tmp_path, Turn)[0].format_valid


@pytest.mark.parametrize("value", ["auto", "answer", "hermes"])
def test_without_native_calls_nothing_is_defined(tmp_path: Path, value: str) -> None:
    bodies = play(
        tmp_path, completion(f"{THOUGHT}<answer>calculator(1 + 1)</answer>"), ANSWER, rollout={"tool_calls": value}
    )
    assert all("tools" not in body for body in bodies)
    assert "calculator(expression)" in bodies[0]["messages"][1]["content"]


@pytest.mark.parametrize(
    "reply",
    [
        refusal(400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        refusal(404, "No endpoints found that support tool use"),
        refusal(422, "Extra inputs are not permitted: tools"),
    ],
)
def test_a_server_that_refuses_tools_ends_the_run_with_advice(tmp_path: Path, reply: Reply) -> None:
    advice = r"rejects the definitions of tools \(4..\).*set rollout.tool_calls to answer"
    with pytest.raises(RefusedError, match=advice):
        play(tmp_path, reply)
    assert events(tmp_path, RunFinished)[-1].reason == "error"


def test_a_continued_run_reads_its_calls_from_the_cache(tmp_path: Path) -> None:
    with Server(in_turn(calling(SUM), refusal(401))).running() as server:
        config = settings(server)
        with pytest.raises(RefusedError):
            run_factory.run(config, tmp_path, tmp_path / "cache")
        server.answer, server.bodies = in_turn(ANSWER), []
        assert run_factory.run(config, tmp_path, tmp_path / "cache").reason == "completed"
    (body,) = server.bodies
    assert body["messages"][2]["tool_calls"] == [SUM]
    assert events(tmp_path, TrajectoryFinished)[-1].success is not None


def test_the_reserved_cost_covers_definitions_and_calls(tmp_path: Path) -> None:
    prices = {"price_per_million": [1.0, 0.0], "max_cost": 0.0005}
    with Server(in_turn(ANSWER)).running() as server:
        end = run_factory.run(settings(server, hosted=prices), tmp_path, tmp_path / "cache")
    assert (end.reason, server.bodies) == ("budget", [])


def parsed(tool_calls: Any) -> tuple[ReportedCall, ...]:
    return parser.parse_completion(completion("x", tool_calls=tool_calls).data()).calls


def test_calls_of_careless_servers_are_read() -> None:
    function = {"name": "price", "arguments": {"item": "lamp"}}
    assert parsed(None) == parsed([]) == ()
    assert parsed([{"function": function}]) == (ReportedCall("call_1", "price", '{"item": "lamp"}'),)
    assert parsed([{"id": "", "function": {"name": "now"}}]) == (ReportedCall("call_1", "now", ""),)
    assert parsed(["x"]) == (ReportedCall("call_1", "", '"x"'),)
    assert len(parsed([SUM] * 500)) == 100
    with pytest.raises(NotACompletionError, match="tool_calls are no list"):
        parsed("x")
