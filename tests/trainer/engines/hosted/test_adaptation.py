"""Requests are adapted to what an endpoint rejects."""

from __future__ import annotations

from typing import Any

import pytest

from trainer.engines.hosted.adaptation import RequestAdaptation

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
BODY: dict[str, Any] = {
    "model": "m",
    "messages": MESSAGES,
    "max_tokens": 8,
    "temperature": 0.5,
    "seed": 3,
    "logprobs": True,
}
MERGED = [{"role": "user", "content": "Be brief.\n\nHello"}]


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in BODY.items() if key != name}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            without("max_tokens") | {"max_completion_tokens": 8},
        ),
        ("logprobs is not supported", without("logprobs")),
        ("unknown field: seed", without("seed")),
        ("temperature must be 1", without("temperature")),
        ("Conversation roles must alternate: system role not supported", BODY | {"messages": MERGED}),
    ],
)
def test_a_rejected_parameter_is_left_out_from_then_on(message: str, expected: dict[str, Any]) -> None:
    adaptation = RequestAdaptation({})
    assert adaptation.adapted(BODY) == BODY
    assert adaptation.learn(400, message, BODY)
    assert adaptation.adapted(BODY) == expected
    assert not adaptation.learn(400, message, expected), "the same rejection once more is final"


def test_requests_that_were_sent_at_once_are_all_repeated_with_one_notice() -> None:
    adaptation = RequestAdaptation({})
    assert [adaptation.learn(422, "unknown field: seed", BODY) for _ in range(3)] == [True] * 3
    assert adaptation.notices.qsize() == 1


@pytest.mark.parametrize(
    ("status", "message", "body"),
    [
        (401, "the seed of your key is unknown", BODY),
        (429, "temperature of our servers is too high", BODY),
        (400, "odd", BODY),
        (400, "tools need a system message", BODY | {"tools": [{}]}),
    ],
)
def test_other_rejections_are_final(status: int, message: str, body: dict[str, Any]) -> None:
    assert not RequestAdaptation({}).learn(status, message, body)


def test_what_the_user_has_set_is_never_left_out() -> None:
    adaptation = RequestAdaptation({"temperature": 0.2})
    assert not adaptation.learn(400, "temperature must be 1", BODY | {"temperature": 0.2})
