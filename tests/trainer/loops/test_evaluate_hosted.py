"""Evaluation of a hosted model end to end, against a real server: journal, costs, stop and resume."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.trainer import tiny
from tests.trainer.hosted_server import Reply, Server, completion, in_turn, refusal
from tests.trainer.loops.test_train import events
from trainer import timeouts
from trainer.cli.main import COMPLETED, main
from trainer.config.run import RunConfig
from trainer.engines.hosted import hosted_client, response_cache
from trainer.engines.hosted.hosted_client import HostedError, RefusedError
from trainer.journal import token_arrays
from trainer.journal.events import (
    Evaluation,
    Metrics,
    Notice,
    RunFinished,
    RunStarted,
    TrajectoryFinished,
    TrajectoryTokens,
    Turn,
)
from trainer.loops import run_factory
from trainer.loops.evaluate import results
from trainer.metrics.registry import get_spec

TOKENS = ["<think>", "go", "</think>", "<answer>", "Up", "</answer>", "<|end|>"]
TEXT = "".join(TOKENS[:-1])


def reply_with_tokens(body: dict[str, Any]) -> Reply:
    return completion(TEXT, tokens=TOKENS, prompt=50, written=7, cached=10)


def reply_without_tokens(body: dict[str, Any]) -> Reply:
    return completion(TEXT, prompt=50, written=9)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(timeouts.HOSTED_WAIT.variable, "0.01")


def settings(server: Server, hosted: dict[str, Any] | None = None, **sections: Any) -> RunConfig:
    data: dict[str, Any] = {"kind": "evaluate", "evaluation": {"prompts": 3, "suites": ["Bandit"]}}
    own = {
        "url": server.url,
        "model": "m",
        "price_per_million": [1.0, 2.0],
    }
    return tiny.config("pocket", **data | sections, hosted=own | (hosted or {}))


def play(config: RunConfig, folder: Path, **extra: Any) -> RunFinished:
    return run_factory.run(config, folder, folder / "cache", **extra)


def account(folder: Path) -> dict[str, float]:
    """The last hosted/* metrics."""
    values = events(folder, Metrics)[-1].values
    return {name.removeprefix("hosted/"): value for name, value in values.items() if name.startswith("hosted/")}


def test_a_hosted_model_plays_every_suite_and_the_journal_records_it(tmp_path: Path) -> None:
    with Server(reply_with_tokens).running() as server:
        end = play(settings(server), tmp_path)
    assert (end.reason, end.message) == ("completed", "All 2 suites are played.")
    (started,) = events(tmp_path, RunStarted)
    assert (started.device, started.parameters) == (f"hosted at 127.0.0.1:{server.port}", 0)
    assert [event.suite for event in events(tmp_path, Evaluation)] == ["Sokoban", "Bandit"]
    assert all(event.mean_response == 7 for event in events(tmp_path, Evaluation))
    turns = events(tmp_path, Turn)
    assert {turn.response for turn in turns} == {TEXT}
    assert {(turn.thought, turn.answer, turn.tokens, turn.truncated) for turn in turns} == {("go", "Up", 7, False)}
    assert {(turn.entropy, turn.logprob) for turn in turns} == {(None, -1.75)}
    for event in events(tmp_path, Metrics):
        for name in event.values:
            get_spec(name)
    assert len(server.bodies) == len(turns)
    assert account(tmp_path) == {
        "requests": len(turns),
        "retries": 0,
        "prompt_tokens": 50 * len(turns),
        "cached_tokens": 10 * len(turns),
        "completion_tokens": 7 * len(turns),
        "latency": pytest.approx(0.5, abs=0.5),
        "cost": pytest.approx(len(turns) * (50 + 14) / 1e6),
    }


def test_each_turn_sends_the_whole_dialogue_and_rows_are_independent(tmp_path: Path) -> None:
    with Server(reply_with_tokens).running() as server:
        play(settings(server, evaluation={"prompts": 2, "suites": []}), tmp_path)
    first = next(body for body in server.bodies if len(body["messages"]) == 2)
    second = next(body for body in server.bodies if len(body["messages"]) == 4)
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "user"]
    assert second["messages"][2]["content"] == TEXT
    assert second["messages"][3]["content"].startswith("Reward: ")
    assert (first["model"], first["max_tokens"], first["temperature"], first["logprobs"]) == ("m", 12, 0.5, True)
    seeds = [body["seed"] for body in server.bodies]
    assert len(set(seeds)) == len(seeds)


@pytest.mark.parametrize("system", ["Be brief.", ""])
def test_the_system_message_is_the_one_of_the_settings(tmp_path: Path, system: str) -> None:
    with Server(reply_with_tokens).running() as server:
        config = settings(server, evaluation={"prompts": 1, "suites": []})
        rollout = config.rollout.model_copy(update={"system": system})
        play(config.model_copy(update={"rollout": rollout}), tmp_path)
    for body in server.bodies:
        found = [message["content"] for message in body["messages"] if message["role"] == "system"]
        assert found == ([system] if system else [])


def test_reported_tokens_and_log_probabilities_are_recorded(tmp_path: Path) -> None:
    with Server(reply_with_tokens).running() as server:
        play(settings(server), tmp_path)
    kept = [token_arrays.unpack(event.data) for event in events(tmp_path, TrajectoryTokens)]
    assert len(kept) == len(events(tmp_path, TrajectoryFinished))
    for arrays in kept:
        assert arrays.entropies is None
        assert arrays.logprobs[:6].tolist() == [-0.5, -1.0, -1.5, -2.0, -2.5, -3.0]
        assert token_arrays.cut(TEXT, arrays.lengths[:6].tolist()) == TOKENS[:-1]


def test_unreported_values_are_absent_and_counts_are_the_endpoints(tmp_path: Path) -> None:
    def strict(body: dict[str, Any]) -> Reply:
        rejected = [name for name in ("logprobs", "seed", "temperature") if name in body]
        rejected += ["system role"] if body["messages"][0]["role"] == "system" else []
        return refusal(400, f"unsupported: {rejected[0]}") if rejected else reply_without_tokens(body)

    with Server(strict).running() as server:
        config = settings(server)
        play(config, tmp_path)
    assert not events(tmp_path, TrajectoryTokens)
    turns = events(tmp_path, Turn)
    assert {(turn.logprob, turn.entropy, turn.tokens) for turn in turns} == {(None, None, 9)}
    ends = {event.trajectory: event.tokens for event in events(tmp_path, TrajectoryFinished)}
    assert all(ends[name] == 9 * sum(turn.trajectory == name for turn in turns) for name in ends)
    assert {name for body in server.bodies[-3:] for name in body} == {"model", "messages", "max_tokens"}
    body = server.bodies[-1]
    assert [message["role"] for message in body["messages"]] == ["user"]
    assert body["messages"][0]["content"].startswith("You solve tasks step by step.\n\n")
    warnings = [notice.message for notice in events(tmp_path, Notice) if "rejected a request" in notice.message]
    assert len(warnings) == 4
    assert f"{config.hosted.host} rejected a request: no temperature is sent" in "".join(warnings)


def test_only_the_turns_in_the_window_are_sent(tmp_path: Path) -> None:
    config = {"rollout": {"max_turns": 4, "context_turns": 1}, "evaluation": {"prompts": 1, "suites": []}}
    with Server(reply_with_tokens).running() as server:
        play(settings(server, **config), tmp_path)
    assert len(server.bodies) > 2
    assert {len(body["messages"]) for body in server.bodies} == {2}
    assert "Turn 3" in server.bodies[2]["messages"][1]["content"]


def test_rows_do_not_wait_for_each_other(tmp_path: Path) -> None:
    second_turn = threading.Event()

    def answer(body: dict[str, Any]) -> Reply:
        if len(body["messages"]) > 2:
            second_turn.set()
        elif body["messages"][1]["content"] == held[0]:
            assert second_turn.wait(10), "no second turn was requested while another response was pending"
        return reply_with_tokens(body)

    with Server(reply_with_tokens).running() as server:
        play(settings(server, evaluation={"prompts": 3, "suites": []}), tmp_path / "first")
    held = [server.bodies[0]["messages"][1]["content"]]
    with Server(answer).running() as server:
        end = play(settings(server, evaluation={"prompts": 3, "suites": []}), tmp_path / "second")
    assert end.reason == "completed"


def test_errors_are_counted_without_changing_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosted_client, "RETRIES", 20)
    calls = iter(range(10**6))

    def answer(body: dict[str, Any]) -> Reply:
        return [refusal(429, Retry_After="0"), Reply(drop=True), reply_with_tokens(body), reply_with_tokens(body)][
            next(calls) % 4
        ]

    with Server(reply_with_tokens).running() as server:
        play(settings(server), tmp_path / "calm")
    with Server(answer).running() as server:
        play(settings(server), tmp_path / "troubled")
    calm, troubled = (
        {(t.trajectory, t.turn): t.state for t in events(tmp_path / name, Turn)} for name in ("calm", "troubled")
    )
    assert calm == troubled
    assert account(tmp_path / "troubled")["retries"] > 0
    assert account(tmp_path / "troubled")["requests"] == account(tmp_path / "calm")["requests"]


def test_a_wrong_key_ends_the_run_and_is_never_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHOSCOPE_TEST_KEY", "sk-secret-1")
    with (
        Server(in_turn(refusal(401, "no such key: sk-secret-1"))).running() as server,
        pytest.raises(RefusedError, match="does not accept the key in ECHOSCOPE_TEST_KEY"),
    ):
        play(settings(server, {"api_key_env": "ECHOSCOPE_TEST_KEY"}), tmp_path)
    end = events(tmp_path, RunFinished)[-1]
    assert end.reason == "error"
    assert "set ECHOSCOPE_TEST_KEY to a valid key" in end.message
    assert "sk-secret" not in "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())


def test_the_budget_is_not_exceeded_and_a_higher_one_pays_only_the_rest(tmp_path: Path) -> None:
    with Server(reply_with_tokens).running() as server:
        whole = play(settings(server), tmp_path / "whole")
        number = len(server.bodies)
        config = settings(server, {"max_cost": 0.0009})
        end = play(config, tmp_path / "poor")
        requested = len(server.bodies) - number
        assert end.reason == "budget"
        assert "hosted.max_cost = 0.0009 are spent" in end.message
        assert 0 < requested < number
        assert account(tmp_path / "poor")["cost"] <= 0.0009
        richer = settings(server, {"max_cost": 1.0, "concurrency": 2, "price_per_million": [1.5, 2.0]})
        assert play(richer, tmp_path / "poor").reason == "completed"
        assert len(server.bodies) == 2 * number
    assert whole.summary["success_after"] == results(tmp_path / "poor", richer)["Sokoban"].success
    assert account(tmp_path / "poor")["requests"] == number


def test_an_interrupted_run_resumes_without_repeating_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosted_client, "RETRIES", 0)
    calls = iter(range(10**6))

    def answer(body: dict[str, Any]) -> Reply:
        return reply_with_tokens(body) if next(calls) < 8 else refusal(500)

    with Server(reply_with_tokens).running() as server:
        play(settings(server), tmp_path / "whole")
        number = len(server.bodies)
        server.answer, server.bodies = answer, []
        config = settings(server, {"concurrency": 1})
        with pytest.raises(HostedError, match="Completed responses are kept"):
            play(config, tmp_path / "broken")
        assert account(tmp_path / "broken")["requests"] == 8
        server.answer, server.bodies = reply_with_tokens, []
        assert play(config, tmp_path / "broken").reason == "completed"
        assert len(server.bodies) == number - 8
        server.bodies = []
        assert play(config, tmp_path / "broken").reason == "completed"
        assert not server.bodies
    attempts = events(tmp_path / "broken", RunStarted)
    assert [event.attempt for event in attempts] == [1, 2, 3]
    assert attempts[2].evaluated_suites == ["Sokoban", "Bandit"]


def test_a_stop_does_not_wait_for_a_response(tmp_path: Path) -> None:
    requested, release = threading.Event(), threading.Event()

    def answer(body: dict[str, Any]) -> Reply:
        requested.set()
        release.wait(60)
        return reply_with_tokens(body)

    with Server(answer).running() as server:
        try:
            end = play(settings(server), tmp_path, stop=requested.is_set)
            assert not release.is_set()
        finally:
            release.set()
    assert end.reason == "interrupted"
    assert "Stopped with 0 of 2 suites played" in end.message
    assert {event.end for event in events(tmp_path, TrajectoryFinished)} == {"interrupted"}


def test_a_dialogue_exceeding_the_context_ends_only_itself(tmp_path: Path) -> None:
    full = refusal(400, "maximum context length exceeded", code="context_length_exceeded")

    def answer(body: dict[str, Any]) -> Reply:
        return full if len(body["messages"]) > 2 else reply_with_tokens(body)

    with Server(answer).running() as server:
        assert play(settings(server), tmp_path).reason == "completed"
    ends = [event for event in events(tmp_path, TrajectoryFinished) if event.end == "truncated"]
    assert ends
    assert {(event.error, event.turns) for event in ends} == {("the dialogue filled the policy's context", 1)}


def test_an_empty_response_is_a_turn_without_an_action(tmp_path: Path) -> None:
    with Server(lambda body: completion("", tokens=[], written=0)).running() as server:
        assert play(settings(server), tmp_path).reason == "completed"
    assert {(turn.response, turn.tokens, turn.logprob) for turn in events(tmp_path, Turn)} == {("", 0, None)}


def test_prefilled_responses_start_with_their_tag(tmp_path: Path) -> None:
    rest = TEXT.removeprefix("<think>")
    with Server(lambda body: completion(rest)).running() as server:
        extra = {"continue_final_message": True, "top_k": 3}
        play(settings(server, {"extra_body": extra}, evaluation={"prompts": 1}), tmp_path)
    assert server.bodies[0]["messages"][-1] == {"role": "assistant", "content": "<think>"}
    assert server.bodies[0]["continue_final_message"] is True
    assert server.bodies[0]["add_generation_prompt"] is False
    assert server.bodies[0]["top_k"] == 3
    assert server.bodies[1]["messages"][2]["content"] == TEXT
    assert events(tmp_path, Turn)[0].thought == "go"


def test_the_command_line_evaluates_a_hosted_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Server(reply_with_tokens).running() as server:
        status = main(
            [
                "evaluate",
                "--hosted",
                server.url,
                "--policy",
                "some/model",
                "--preset",
                "sokoban-pocket",
                "--suites",
                "Bandit",
                "--out",
                str(tmp_path),
                "--set",
                "evaluation.prompts=2",
            ]
        )
    assert status == COMPLETED
    assert {body["model"] for body in server.bodies} == {"some/model"}
    assert "| Bandit | 2 |" in capsys.readouterr().out
    assert (tmp_path / response_cache.FILE_NAME).exists()
    assert math.isfinite(account(tmp_path)["requests"])
