"""Parsing of an endpoint's responses: text, tokens that spell it, usage, errors."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.hosted_server import completion
from trainer.engines.hosted import completion as parser
from trainer.engines.hosted.chat import HostedChat
from trainer.engines.hosted.completion import NotACompletionError
from trainer.engines.hosted.costs import Usage
from trainer.engines.hosted.hosted_sampler import sampled_response


def changed(**choice: Any) -> bytes:
    body = completion("Up", tokens=["U", "p"]).body
    body["choices"][0] |= choice
    return json.dumps(body).encode()


def test_text_tokens_and_usage_are_parsed() -> None:
    parsed = parser.parse_completion(completion("Up é", tokens=["Up", " é"], prompt=9, written=3, cached=4).data())
    assert (parsed.text, parsed.tokens, parsed.logprobs) == ("Up é", (b"Up", " é".encode()), (-0.5, -1.0))
    assert (parsed.usage, parsed.ended) == (Usage(9, 3, 4), True)
    assert not parser.parse_completion(completion("Up", finish="length").data()).ended


def test_the_end_token_after_the_text_is_dropped() -> None:
    assert parser.parse_completion(completion("Up", tokens=["Up", "<|im_end|>"]).data()).tokens == (b"Up",)


@pytest.mark.parametrize("tokens", [["U"], ["Down"], ["thinking", "Up"], ["", "Up"], []])
def test_tokens_that_do_not_match_the_text_are_dropped(tokens: list[str]) -> None:
    parsed = parser.parse_completion(completion("Up", tokens=tokens).data())
    assert (parsed.tokens, parsed.logprobs, parsed.text) == (None, (), "Up")


@pytest.mark.parametrize("logprob", [None, "x", math.nan, -math.inf, True])
def test_an_invalid_log_probability_is_dropped(logprob: Any) -> None:
    listed = {"content": [{"token": "Up", "logprob": logprob, "bytes": None}]}
    assert parser.parse_completion(changed(logprobs=listed)).tokens is None


def test_unknown_values_are_nan_and_never_zero() -> None:
    chat = HostedChat(think=True, prefill=False)
    without_tokens = sampled_response(chat, parser.parse_completion(completion("Up", written=5).data()))
    assert all(map(math.isnan, [*without_tokens.logprobs, *without_tokens.entropies]))
    assert (without_tokens.tokens, len(without_tokens.ids)) == (5, 2)
    with_tokens = sampled_response(chat, parser.parse_completion(completion("Up", tokens=["Up"]).data()))
    assert with_tokens.logprobs == [-0.5]
    assert math.isnan(with_tokens.entropies[0])


def test_a_refusal_of_the_model_is_its_text() -> None:
    assert parser.parse_completion(completion(None, refusal="I would rather not.").data()).text == "I would rather not."
    assert parser.parse_completion(completion(None).data()).text == ""


def test_a_lone_surrogate_becomes_a_question_mark() -> None:
    assert (
        parser.parse_completion(
            b'{"choices":[{"message":{"content":"a\\ud800"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}'
        ).text
        == "a?"
    )


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"<html>", "no JSON object"),
        (b"[" * 100_000, "no JSON object"),
        (b"[]", "no JSON object"),
        (b"{}", "no choices"),
        (b'{"choices": []}', "no choices"),
        (b'{"choices": [{"message": "x"}]}', "no choices"),
        (changed(message={"content": ["x"]}), "no text"),
        (b'{"choices":[{"message":{"content":"x"}}]}', "no usage"),
        (b'{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":-1,"completion_tokens":2}}', "no usage"),
    ],
)
def test_a_response_without_a_completion_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(NotACompletionError, match=problem):
        parser.parse_completion(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "message", "content", "logprobs", "usage", "token", "bytes", "logprob", "error"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(json_values, json_values)
def test_no_response_breaks_the_parser(message: Any, logprobs: Any) -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 1}
    body = {"choices": [{"message": message, "logprobs": logprobs}], "usage": usage}
    for content in (body, message):
        data = json.dumps(content).encode()
        try:
            parsed = parser.parse_completion(data)
        except NotACompletionError:
            pass
        else:
            assert parsed.tokens is None or b"".join(parsed.tokens) == parsed.text.encode()
        parser.error_message(data)
        parser.error_code(data)
        parser.inner_status(data)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b'{"error":{"message":"bad  key sk-1"}}', "bad key …"),
        (b'{"message":"at the top"}', "at the top"),
        (b'{"detail":"Not Found"}', "Not Found"),
        (b'{"error":"plain"}', "plain"),
        (b"<h1>Bad\nGateway</h1>", "<h1>Bad Gateway</h1>"),
        (b"\xff\0", "�"),
        (b"", ""),
    ],
)
def test_an_error_message_is_extracted_without_the_key(data: bytes, problem: str) -> None:
    assert parser.error_message(data, "sk-1") == problem


def test_a_long_refusal_is_truncated() -> None:
    assert len(parser.error_message(b"x" * 5000)) == 301


@pytest.mark.parametrize(
    ("status", "error", "exceeded"),
    [
        (400, {"code": "context_length_exceeded", "message": "x"}, True),
        (400, {"message": "This model's maximum context length is 2048 tokens. However, you requested"}, True),
        (413, {"message": "The prompt is too long"}, True),
        (400, {"message": "unknown parameter: seed"}, False),
        (500, {"message": "context length"}, False),
    ],
)
def test_context_errors_are_recognised(status: int, error: dict[str, str], exceeded: bool) -> None:
    assert parser.is_context_exceeded(status, json.dumps({"error": error}).encode()) is exceeded


def test_an_error_with_http_status_200_has_an_inner_status() -> None:
    assert parser.inner_status(b'{"error":{"code":429,"message":"slow down"}}') == 429
    assert parser.inner_status(b'{"error":{"message":"x"}}') == 500
    assert parser.inner_status(completion("Up").data()) is None
