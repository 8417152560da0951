"""Client of a busy, slow, broken or strict endpoint: retries, and errors with advice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.trainer.hosted_server import Reply, Server, completion, in_turn, refusal
from trainer import timeouts
from trainer.config.hosted import HostedConfig
from trainer.engines.hosted import hosted_client
from trainer.engines.hosted.hosted_client import CompletionResult, HostedClient, HostedError, RefusedError

GOOD = completion("Up")


def complete(server: Server | str, times: int = 1, **settings: Any) -> tuple[list[CompletionResult], list[float]]:
    """Results of this many concurrent requests, and the waits between attempts (which take no time here)."""
    waits: list[float] = []

    async def record_wait(seconds: float) -> None:
        waits.append(seconds)

    async def work() -> list[CompletionResult]:
        url = server if isinstance(server, str) else server.url
        client = HostedClient(HostedConfig(url=url, model="m", **settings), sleep=record_wait)
        try:
            return await asyncio.gather(*(client.complete({"number": n}) for n in range(times)))
        finally:
            await client.close()

    return asyncio.run(work()), waits


def test_a_completion_needs_no_second_attempt() -> None:
    with Server(in_turn(GOOD)).running() as server:
        (result,), waits = complete(server)
    assert (result.completion.text, result.retries, waits, server.paths) == ("Up", 0, [], ["/v1/chat/completions"])


@pytest.mark.parametrize(
    "error",
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
def test_temporary_errors_are_retried(error: Reply) -> None:
    with Server(in_turn(error, error, GOOD)).running() as server:
        (result,), waits = complete(server)
    assert (result.completion.text, result.retries, len(server.bodies)) == ("Up", 2, 3)
    assert 0.25 <= waits[0] <= 0.5 <= waits[1] <= 1.0
    assert server.bodies[0] == server.bodies[2]


def test_retry_after_is_honoured() -> None:
    with Server(in_turn(refusal(429, Retry_After="11"), GOOD)).running() as server:
        _, waits = complete(server)
    assert 11 <= waits[0] <= 13.75


def test_a_requested_wait_above_the_limit_ends_the_run() -> None:
    with (
        Server(in_turn(refusal(429, "daily limit", Retry_After="7200"))).running() as server,
        pytest.raises(
            HostedError,
            match=r"a wait of 7,200 s, which is above ECHOSCOPE_TIMEOUT_HOSTED_WAIT = 60 seconds; .*daily limit",
        ),
    ):
        complete(server)
    assert len(server.bodies) == 1


def test_retries_end_after_the_last_attempt() -> None:
    with (
        Server(in_turn(refusal(503, "overloaded"))).running() as server,
        pytest.raises(HostedError, match=r"no completion in 7 attempts; the last one: status 503: overloaded"),
    ):
        complete(server)
    assert len(server.bodies) == 7


def test_a_slow_response_times_out_and_is_requested_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(timeouts.HOSTED_REQUEST.variable, "0.2")
    late = completion("Late")
    late.late = 1.0
    with Server(in_turn(late, GOOD)).running() as server:
        (result,), _ = complete(server)
        assert (result.completion.text, result.retries) == ("Up", 1)
    monkeypatch.setattr(hosted_client, "RETRIES", 0)
    with (
        Server(in_turn(late)).running() as server,
        pytest.raises(HostedError, match=r"no response within 0.2 s \(ECHOSCOPE_TIMEOUT_HOSTED_REQUEST\)"),
    ):
        complete(server)


def test_a_missing_endpoint_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosted_client, "RETRIES", 0)
    with Server(in_turn(GOOD)).running() as server:
        url = server.url
    with pytest.raises(HostedError, match="no completion in one attempt; the last one: the connection failed"):
        complete(url)


def test_a_response_without_a_completion_points_to_the_url() -> None:
    with (
        Server(in_turn(Reply(200, b"<html>Hello</html>"))).running() as server,
        pytest.raises(HostedError, match=r"no JSON object; is hosted\.url the root"),
    ):
        complete(server)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (refusal(400, "odd"), r"rejects the request \(400\): odd. To change the request, see hosted.extra_body"),
        (refusal(400, "seed"), r"rejects the request \(400\): seed"),  # which was not sent
        (refusal(400, "unknown continue_final_message"), "To change the request, leave continue_final_message out of"),
        (refusal(401, "bad key"), "requires a key: bad key.*set ECHOSCOPE_TEST_KEY to a valid key"),
        (refusal(402, "top up"), "requires payment: top up"),
        (refusal(429, "quota", code="insufficient_quota"), "requires payment: quota"),
        (refusal(403, "not you"), "does not let this key use m: not you"),
        (refusal(404, "no such model"), "has no model 'm', or .*/v1/chat/completions does not exist: no such model"),
        (Reply(307, b"", {"Location": "http://127.0.0.1:1/"}), "redirects, which is not followed"),
    ],
)
def test_a_permanent_error_has_advice_and_is_not_retried(reply: Reply, message: str) -> None:
    with Server(in_turn(reply)).running() as server, pytest.raises(RefusedError, match=message):
        complete(server, api_key_env="ECHOSCOPE_TEST_KEY")
    assert len(server.bodies) == 1


def test_the_key_is_sent_and_never_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHOSCOPE_TEST_KEY", "sk-secret-1\n")
    with Server(in_turn(GOOD, refusal(401, "Incorrect API key provided: sk-secret-1"))).running() as server:
        complete(server, api_key_env="ECHOSCOPE_TEST_KEY")
        with pytest.raises(RefusedError, match="does not accept the key in ECHOSCOPE_TEST_KEY") as refused:
            complete(server, api_key_env="ECHOSCOPE_TEST_KEY")
    assert [headers["Authorization"] for headers in server.headers] == ["Bearer sk-secret-1"] * 2
    assert "sk-secret" not in str(refused.value)


def test_no_key_is_sent_without_a_key_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-1")
    with Server(in_turn(GOOD)).running() as server:
        complete(server, api_key_env="")
    assert "Authorization" not in server.headers[0]


def test_a_malformed_key_is_reported_without_repeating_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHOSCOPE_TEST_KEY", "sk-ü")
    with pytest.raises(RefusedError, match="the key in ECHOSCOPE_TEST_KEY contains invalid characters") as refused:
        complete("http://127.0.0.1:1/v1", api_key_env="ECHOSCOPE_TEST_KEY")
    assert "ü" not in str(refused.value)


def test_an_exceeded_context_is_a_separate_completion_status() -> None:
    with Server(in_turn(refusal(400, "x", code="context_length_exceeded"))).running() as server:
        (result,), _ = complete(server)
    assert result.completion.context_exceeded


def test_concurrency_is_limited() -> None:
    late = completion("Up")
    late.late = 0.05
    with Server(in_turn(late)).running() as server:
        complete(server, times=9, concurrency=3)
    assert (server.most, len(server.bodies)) == (3, 9)
