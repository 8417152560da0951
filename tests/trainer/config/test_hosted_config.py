"""Settings of hosted models: invalid ones are reported before any request."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from trainer.config.files import validation_errors, with_overrides
from trainer.config.run import RunConfig
from trainer.loops import run_factory
from trainer.loops.evaluate_hosted import evaluate_hosted

GOOD = {"url": "https://api.openai.com/v1", "model": "gpt-4o-mini"}


def problem(**hosted: Any) -> str:
    with pytest.raises(ValidationError) as refusal:
        RunConfig.model_validate({"kind": "evaluate", "hosted": GOOD | hosted})
    ((_, sentence),) = validation_errors(refusal.value)
    return sentence


@pytest.mark.parametrize(
    "url",
    ["api.openai.com", "ftp://x/v1", "http://", "http://x:99999/v1", "https://a b/v1", "https://x\n/v1", "http://é"],
)
def test_invalid_addresses_are_rejected(url: str) -> None:
    assert "must be an address such as" in problem(url=url)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("https://me:sk-1@x/v1", "must not hold a user name or key"),
        ("https://x/v1?key=sk-1", "without ? and #"),
        ("https://x/v1/chat/completions", "without /chat/completions"),
    ],
)
def test_an_address_with_more_than_the_base_url_is_rejected(url: str, message: str) -> None:
    assert message in problem(url=url)


def test_an_api_key_is_rejected_as_the_name_of_its_variable() -> None:
    assert "not the key itself" in problem(api_key_env="sk-proj-123")


def test_missing_companions_of_a_setting_are_reported() -> None:
    assert "is missing: name the model" in problem(model=" ")
    assert "needs prices" in problem(max_cost=1)
    assert "needs prices" in problem(max_cost=1, price_per_million=[0, 0])
    assert "other settings determine it" in problem(extra_body={"messages": []})
    assert "other settings determine it" in problem(extra_body={"tools": []})
    assert "takes at most" in problem(extra_body={f"field_{number}": 1 for number in range(1000)})
    assert "bytes as JSON; at most" in problem(extra_body={"text": "x" * 1_000_000})
    assert "a value that JSON does not have" in problem(extra_body={"odd": {1, 2}})


@pytest.mark.parametrize("prices", [[1.0], [1.0, 2.0, 3.0], [-1.0, 1.0], [1.0, 2e6], [1.0, float("nan")]])
def test_prices_are_two_or_none(prices: list[float]) -> None:
    assert problem(price_per_million=prices).startswith("must be two numbers from 0 to 1,000,000")


@pytest.mark.parametrize("kind", ["train", "evaluate", "sft"])
def test_only_hosted_models_have_native_calls(kind: str) -> None:
    rollout = {"tool_calls": "native"}
    with pytest.raises(ValidationError) as refusal:
        RunConfig.model_validate({"kind": kind, "rollout": rollout})
    assert "only hosted models can do: set kind to evaluate and hosted.url" in validation_errors(refusal.value)[0][1]
    assert RunConfig.model_validate({"kind": "evaluate", "rollout": rollout, "hosted": GOOD}).rollout.tool_calls


@pytest.mark.parametrize("kind", ["train", "sft"])
def test_only_evaluations_can_be_hosted(kind: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        RunConfig.model_validate({"kind": kind, "hosted": GOOD})
    assert "set kind to evaluate" in validation_errors(refusal.value)[0][1]


def test_texts_of_a_form_are_parsed() -> None:
    config = RunConfig.model_validate(
        {
            "kind": "evaluate",
            "hosted": GOOD | {"extra_body": {"top_k": "40", "reasoning_effort": "low", "stop": '["x"]'}},
        }
    )
    assert config.hosted.extra_body == {"top_k": 40, "reasoning_effort": "low", "stop": ["x"]}
    assert with_overrides(config, ["hosted.concurrency=2"]).hosted.concurrency == 2
    assert RunConfig.model_validate(config.model_dump(mode="json")) == config


def test_a_hosted_run_has_the_models_name_and_its_own_class() -> None:
    config = RunConfig.model_validate({"kind": "evaluate", "hosted": GOOD | {"url": GOOD["url"] + "/"}})
    assert config.title() == "Sokoban · evaluation · gpt-4o-mini, seed 0"
    assert config.hosted.url == GOOD["url"]
    assert run_factory.get_loop(config) is evaluate_hosted
