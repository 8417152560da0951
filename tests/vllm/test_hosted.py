"""Hosted evaluations against vLLM's own OpenAI-compatible server: the same play as in process, and refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.trainer import tiny
from tests.trainer.loops.test_train import events
from tests.vllm.servers import serving
from trainer.config.hosted import HostedConfig
from trainer.config.run import RunConfig
from trainer.engines.hosted.hosted_client import HostedClient, RefusedError
from trainer.evaluation import suite_runner
from trainer.journal import token_arrays
from trainer.journal.events import Evaluation, Metrics, RunFinished, TrajectoryFinished, TrajectoryTokens, Turn
from trainer.loops import run_factory

KEY, VARIABLE, MODEL = "sk-only-for-this-test", "ECHOSCOPE_TEST_KEY", "pocket"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Root URL of a vLLM server with the shipped pocket policy that requires a key."""
    further = f"--vllm-args=--api-key {KEY} --served-model-name {MODEL}"
    with serving(tmp_path_factory.mktemp("server"), further) as url:
        yield url


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)


def settings(server: str, hosted: dict[str, Any] | None = None, **sections: Any) -> RunConfig:
    """Return a hosted evaluation with the prompts that the pocket policy was taught, which auto cannot know here."""
    own = {
        "url": server,
        "model": MODEL,
        "api_key_env": VARIABLE,
        "extra_body": {"continue_final_message": True},
        "price_per_million": [1.0, 2.0],
    }
    data: dict[str, Any] = {
        "kind": "evaluate",
        "environment": {"cells": "compact"},
        "evaluation": {"prompts": 12, "temperature": 0.0, "suites": ["Bandit"]},
        "rollout": {"max_response_tokens": 96, "format_line": "placeholders"},
    }
    return tiny.config("pocket", **data | sections, hosted=own | (hosted or {}))


def play(config: RunConfig, folder: Path) -> RunFinished:
    return run_factory.run(config, folder, folder / "cache")


def turns(folder: Path) -> dict[tuple[str, int], Turn]:
    return {(turn.trajectory, turn.turn): turn for turn in events(folder, Turn)}


def test_a_policy_behind_an_endpoint_plays_as_in_process(server: str, tmp_path: Path) -> None:
    here = settings(server, {"url": ""})
    there = settings(server)
    assert play(here, tmp_path / "here").reason == play(there, tmp_path / "there").reason == "completed"
    own, theirs = turns(tmp_path / "here"), turns(tmp_path / "there")
    assert len({turn.response for turn in own.values()}) > 5
    assert {key: turn.response for key, turn in theirs.items()} == {key: turn.response for key, turn in own.items()}
    assert {key: turn.tokens for key, turn in theirs.items()} == {key: turn.tokens for key, turn in own.items()}
    assert any(key[1] == 1 for key in own), "no dialogue had a second turn"
    scores = [
        {e.suite: (e.success, e.mean_reward) for e in events(tmp_path / name, Evaluation)} for name in ("here", "there")
    ]
    assert scores[0] == scores[1]


def test_tokens_log_probabilities_and_usage_are_returned(server: str, tmp_path: Path) -> None:
    config = settings(server, evaluation={"prompts": 3, "temperature": 1.0, "suites": []})
    play(config, tmp_path)
    played = turns(tmp_path).values()
    kept = [token_arrays.unpack(event.data) for event in events(tmp_path, TrajectoryTokens)]
    assert len(kept) == len(events(tmp_path, TrajectoryFinished)) == 3
    for arrays in kept:
        assert arrays.entropies is None
        assert (arrays.logprobs <= 0).all()
        assert (arrays.logprobs < 0).any()
    values = events(tmp_path, Metrics)[-1].values
    assert values["hosted/requests"] == len(played)
    assert values["hosted/completion_tokens"] == sum(turn.tokens for turn in played)
    assert values["hosted/prompt_tokens"] > 100 * len(played)
    assert values["hosted/cost"] > 0


def test_the_seed_determines_the_samples(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluation = {"prompts": 4, "temperature": 1.0, "suites": []}
    play(settings(server, evaluation=evaluation), tmp_path / "one")
    play(settings(server, evaluation=evaluation), tmp_path / "two")
    monkeypatch.setattr(suite_runner, "EVALUATION_SEED", 7)
    play(settings(server, evaluation=evaluation), tmp_path / "other")
    responses = [
        [turn.response for _, turn in sorted(turns(tmp_path / name).items())] for name in ("one", "two", "other")
    ]
    assert responses[0] == responses[1] != responses[2]


def test_a_model_with_its_own_tags_gets_no_prefill(server: str, tmp_path: Path) -> None:
    config = settings(server, {"extra_body": {}}, evaluation={"prompts": 2, "suites": []})
    assert play(config, tmp_path).reason == "completed"
    assert turns(tmp_path)


def complete(server: str, text: str, **changes: Any) -> Any:
    async def work() -> Any:
        config = HostedConfig(**{"url": server, "model": MODEL, "api_key_env": VARIABLE} | changes)
        client = HostedClient(config)
        try:
            body = {"model": config.model, "messages": [{"role": "user", "content": text}], "max_tokens": 8}
            return (await client.complete(body)).completion
        finally:
            await client.close()

    return asyncio.run(work())


def test_a_dialogue_beyond_the_context_is_recognised(server: str) -> None:
    assert not complete(server, "Turn 1").context_exceeded
    assert complete(server, "Turn 1 " * 2000).context_exceeded


def test_a_wrong_key_and_a_wrong_model_are_reported(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RefusedError, match="has no model 'other'"):
        complete(server, "x", model="other")
    monkeypatch.setenv(VARIABLE, "sk-wrong")
    with pytest.raises(RefusedError, match=f"does not accept the key in {VARIABLE}"):
        complete(server, "x")
