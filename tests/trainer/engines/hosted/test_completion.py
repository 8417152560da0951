"""What an endpoint says is read as it is meant: text, tokens that really spell it, usage, refusals in words."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.hosted_server import completion
from trainer.engines.hosted import completion as answers
from trainer.engines.hosted.chat import HostedChat
from trainer.engines.hosted.completion import NotACompletionError
from trainer.engines.hosted.costs import Usage
from trainer.engines.hosted.hosted_sampler import sampled


def changed(**choice: Any) -> bytes:
    body = completion("Up", tokens=["U", "p"]).body
    body["choices"][0] |= choice
    return json.dumps(body).encode()


def test_text_tokens_and_usage_are_read() -> None:
    found = answers.parse_completion(completion("Up é", tokens=["Up", " é"], prompt=9, written=3, cached=4).data())
    assert (found.text, found.pieces, found.logprobs) == ("Up é", (b"Up", " é".encode()), (-0.5, -1.0))
    assert (found.usage, found.ended) == (Usage(9, 3, 4), True)
    assert not answers.parse_completion(completion("Up", finish="length").data()).ended


def test_the_end_token_behind_the_text_is_left_out() -> None:
    assert answers.parse_completion(completion("Up", tokens=["Up", "<|im_end|>"]).data()).pieces == (b"Up",)


@pytest.mark.parametrize("tokens", [["U"], ["Down"], ["thinking", "Up"], ["", "Up"], []])
def test_tokens_that_do_not_spell_the_text_are_not_taken_for_its_own(tokens: list[str]) -> None:
    found = answers.parse_completion(completion("Up", tokens=tokens).data())
    assert (found.pieces, found.logprobs, found.text) == (None, (), "Up")


@pytest.mark.parametrize("logprob", [None, "x", math.nan, -math.inf, True])
def test_a_log_probability_that_is_no_number_is_not_known(logprob: Any) -> None:
    listed = {"content": [{"token": "Up", "logprob": logprob, "bytes": None}]}
    assert answers.parse_completion(changed(logprobs=listed)).pieces is None


def test_what_is_not_known_is_nan_and_never_zero() -> None:
    chat = HostedChat(think=True, prefill=False)
    untold = sampled(chat, answers.parse_completion(completion("Up", written=5).data()))
    assert all(map(math.isnan, [*untold.logprobs, *untold.entropies]))
    assert (untold.tokens, len(untold.ids)) == (5, 2)
    told = sampled(chat, answers.parse_completion(completion("Up", tokens=["Up"]).data()))
    assert told.logprobs == [-0.5]
    assert math.isnan(told.entropies[0])


def test_a_model_that_declines_has_said_so() -> None:
    assert (
        answers.parse_completion(completion(None, refusal="I would rather not.").data()).text == "I would rather not."
    )
    assert answers.parse_completion(completion(None).data()).text == ""


def test_half_a_surrogate_does_no_harm() -> None:
    assert (
        answers.parse_completion(
            b'{"choices":[{"message":{"content":"a\\ud800"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}'
        ).text
        == "a?"
    )


@pytest.mark.parametrize(
    ("data", "told"),
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
def test_what_is_no_completion_is_told(data: bytes, told: str) -> None:
    with pytest.raises(NotACompletionError, match=told):
        answers.parse_completion(data)


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
def test_no_answer_whatever_breaks_the_reader(message: Any, logprobs: Any) -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 1}
    body = {"choices": [{"message": message, "logprobs": logprobs}], "usage": usage}
    for told in (body, message):
        data = json.dumps(told).encode()
        try:
            found = answers.parse_completion(data)
        except NotACompletionError:
            pass
        else:
            assert found.pieces is None or b"".join(found.pieces) == found.text.encode()
        answers.error_message(data)
        answers.error_code(data)
        answers.inner_status(data)


@pytest.mark.parametrize(
    ("data", "told"),
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
def test_a_refusal_is_told_in_its_own_words_without_the_key(data: bytes, told: str) -> None:
    assert answers.error_message(data, "sk-1") == told


def test_a_long_refusal_is_cut() -> None:
    assert len(answers.error_message(b"x" * 5000)) == 301


@pytest.mark.parametrize(
    ("status", "error", "full"),
    [
        (400, {"code": "context_length_exceeded", "message": "x"}, True),
        (400, {"message": "This model's maximum context length is 2048 tokens. However, you requested"}, True),
        (413, {"message": "The prompt is too long"}, True),
        (400, {"message": "unknown parameter: seed"}, False),
        (500, {"message": "context length"}, False),
    ],
)
def test_a_full_context_is_recognised(status: int, error: dict[str, str], full: bool) -> None:
    assert answers.is_context_exceeded(status, json.dumps({"error": error}).encode()) is full


def test_an_error_that_comes_as_an_answer_has_a_status() -> None:
    assert answers.inner_status(b'{"error":{"code":429,"message":"slow down"}}') == 429
    assert answers.inner_status(b'{"error":{"message":"x"}}') == 500
    assert answers.inner_status(completion("Up").data()) is None
