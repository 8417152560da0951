"""Asking an endpoint that is busy, slow, broken or strict: patience where it helps, plain words where it does not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.trainer.hosted_server import Reply, Server, completion, in_turn, refusal
from trainer.config.hosted import HostedConfig
from trainer.engines.hosted.errors import HostedError, RefusedError
from trainer.engines.hosted.hosted_client import CompletionRequest, HostedClient

GOOD = completion("Up")


def ask(server: Server | str, times: int = 1, **settings: Any) -> tuple[list[CompletionRequest], list[float]]:
    """The answers to so many requests at once, and the waits in between (which take no time here)."""
    waits: list[float] = []

    async def nap(seconds: float) -> None:
        waits.append(seconds)

    async def work() -> list[CompletionRequest]:
        url = server if isinstance(server, str) else server.url
        endpoint = HostedClient(HostedConfig(url=url, model="m", **settings), sleep=nap)
        try:
            return await asyncio.gather(*(endpoint.ask({"number": n}) for n in range(times)))
        finally:
            await endpoint.close()

    return asyncio.run(work()), waits


def test_a_good_answer_needs_no_second_try() -> None:
    with Server(in_turn(GOOD)).running() as server:
        (asked,), waits = ask(server)
    assert (asked.answer.text, asked.retries, waits, server.paths) == ("Up", 0, [], ["/v1/chat/completions"])


@pytest.mark.parametrize(
    "trouble",
    [
        refusal(408),
        refusal(409),
        refusal(429),
        refusal(500),
        refusal(503),
        Reply(502, b"<html>Bad Gateway</html>"),
        Reply(drop=True),
        Reply(200, b'{"choices": [{"mess'),
        Reply(200, {"error": {"code": 502, "message": "x"}}),
    ],
)
def test_trouble_that_passes_is_waited_for(trouble: Reply) -> None:
    with Server(in_turn(trouble, trouble, GOOD)).running() as server:
        (asked,), waits = ask(server)
    assert (asked.answer.text, asked.retries, len(server.bodies)) == ("Up", 2, 3)
    assert 0.25 <= waits[0] <= 0.5 <= waits[1] <= 1.0
    assert server.bodies[0] == server.bodies[2]


def test_retry_after_is_honoured() -> None:
    with Server(in_turn(refusal(429, Retry_After="11"), GOOD)).running() as server:
        _, waits = ask(server)
    assert 11 <= waits[0] <= 13.75


def test_an_endpoint_that_asks_for_too_much_patience_ends_it() -> None:
    with (
        Server(in_turn(refusal(429, "daily limit", Retry_After="7200"))).running() as server,
        pytest.raises(HostedError, match=r"come back in 7,200 s, and hosted.max_backoff is 60 s.*daily limit"),
    ):
        ask(server)
    assert len(server.bodies) == 1


def test_patience_ends_after_the_last_try() -> None:
    with (
        Server(in_turn(refusal(503, "overloaded"))).running() as server,
        pytest.raises(HostedError, match=r"no answer in 3 tries; the last time it said 503: overloaded"),
    ):
        ask(server, retries=2)
    assert len(server.bodies) == 3


def test_a_slow_answer_is_given_up_and_asked_for_again() -> None:
    late = completion("Late")
    late.late = 1.0
    with Server(in_turn(late, GOOD)).running() as server:
        (asked,), _ = ask(server, timeout=0.2)
        assert (asked.answer.text, asked.retries) == ("Up", 1)
    with (
        Server(in_turn(late)).running() as server,
        pytest.raises(HostedError, match=r"no answer within 0.2 s \(hosted.timeout\)"),
    ):
        ask(server, timeout=0.2, retries=0)


def test_nobody_there_is_told() -> None:
    with Server(in_turn(GOOD)).running() as server:
        url = server.url
    with pytest.raises(HostedError, match="no answer in one try; the last time the connection failed"):
        ask(url, retries=0)


def test_an_answer_that_is_no_completion_points_to_the_address() -> None:
    with (
        Server(in_turn(Reply(200, b"<html>Hello</html>"))).running() as server,
        pytest.raises(HostedError, match=r"no JSON object; is hosted\.url the root"),
    ):
        ask(server, retries=1)


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (
            refusal(400, "Unsupported parameter: use 'max_completion_tokens'"),
            "set hosted.max_tokens_param to max_completion",
        ),
        (refusal(400, "logprobs is not supported"), "add logprobs to hosted.unsupported_params"),
        (refusal(422, "unknown field: seed"), "add seed to hosted.unsupported_params"),
        (refusal(400, "temperature must be 1"), "add temperature to hosted.unsupported_params"),
        (refusal(400, "odd"), r"refuses the request \(400\): odd. To change that, see hosted.unsupported_params"),
        (refusal(401, "bad key"), "wants a key: bad key.*set ECHOSCOPE_TEST_KEY to a valid key"),
        (refusal(402, "top up"), "wants to be paid: top up"),
        (refusal(429, "quota", code="insufficient_quota"), "wants to be paid: quota"),
        (refusal(403, "not you"), "does not let this key use m: not you"),
        (refusal(404, "no such model"), "knows no model 'm', or nothing is at .*/v1/chat/completions: no such model"),
        (Reply(307, b"", {"Location": "http://127.0.0.1:1/"}), "sends elsewhere, which is not followed"),
    ],
)
def test_a_refusal_says_what_to_change_and_is_not_repeated(reply: Reply, told: str) -> None:
    with Server(in_turn(reply)).running() as server, pytest.raises(RefusedError, match=told):
        ask(server, api_key_env="ECHOSCOPE_TEST_KEY")
    assert len(server.bodies) == 1


def test_the_key_is_sent_and_never_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHOSCOPE_TEST_KEY", "sk-secret-1\n")
    with Server(in_turn(GOOD, refusal(401, "Incorrect API key provided: sk-secret-1"))).running() as server:
        ask(server, api_key_env="ECHOSCOPE_TEST_KEY")
        with pytest.raises(RefusedError, match="does not accept the key in ECHOSCOPE_TEST_KEY") as refused:
            ask(server, api_key_env="ECHOSCOPE_TEST_KEY")
    assert [headers["Authorization"] for headers in server.headers] == ["Bearer sk-secret-1"] * 2
    assert "sk-secret" not in str(refused.value)


def test_no_key_is_sent_where_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-1")
    with Server(in_turn(GOOD)).running() as server:
        ask(server, api_key_env="")
    assert "Authorization" not in server.headers[0]


def test_a_key_that_cannot_be_one_is_told_without_repeating_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHOSCOPE_TEST_KEY", "sk-ü")
    with pytest.raises(RefusedError, match="the key in ECHOSCOPE_TEST_KEY holds characters") as refused:
        ask("http://127.0.0.1:1/v1", api_key_env="ECHOSCOPE_TEST_KEY")
    assert "ü" not in str(refused.value)


def test_a_dialogue_that_is_too_long_is_an_answer_of_its_own() -> None:
    with Server(in_turn(refusal(400, "x", code="context_length_exceeded"))).running() as server:
        (asked,), _ = ask(server)
    assert asked.answer.full


def test_no_more_requests_are_under_way_than_allowed() -> None:
    late = completion("Up")
    late.late = 0.05
    with Server(in_turn(late)).running() as server:
        ask(server, times=9, concurrency=3)
    assert (server.most, len(server.bodies)) == (3, 9)
