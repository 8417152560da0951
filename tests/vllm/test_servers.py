"""Remote vLLM servers: weight updates, distribution of rows, restarts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
import torch

from tests.trainer.branching.recordings import attempts, play_on, record
from tests.vllm.conftest import pocket
from tests.vllm.servers import START_TIMEOUT, Serving
from tests.vllm.shapes import GREEDY, k3, sample
from trainer import timeouts
from trainer.branching.local_player import LocalPlayer
from trainer.branching.player import Weights
from trainer.config.run import RunConfig
from trainer.engines.sampler import SamplingParams
from trainer.engines.stop_text import StopText
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.engines.vllm.server_sampler import ServerSampler
from trainer.engines.vllm.vllm_client import ServerError
from trainer.journal.events import Turn
from trainer.rollout.runner import GroupPlan, RolloutRequest, RolloutRunner


@pytest.fixture(scope="module")
def servers(tmp_path_factory) -> Iterator[list[Serving]]:
    folder = tmp_path_factory.mktemp("servers")
    started = [Serving(folder), Serving(folder)]
    try:
        for server in started:
            server.wait()
        yield started
    finally:
        for server in started:
            if server.process.poll() is None:
                server.kill()


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    monkeypatch.setenv(timeouts.ENGINE_SERVER.variable, str(START_TIMEOUT))


def settings(servers, **engine):
    engine = {"name": "server", "urls": [server.url for server in servers]} | engine
    rollout = {"max_turns": 4, "max_response_tokens": 64}
    return RunConfig.model_validate({"engine": engine, "rollout": rollout})


@pytest.fixture
def policy():
    return pocket()


@pytest.fixture
def sampler(servers, policy, chat, tmp_path):
    made = ServerSampler(settings(servers), policy, chat.eos_id, tmp_path)
    yield made
    made.close()
    assert list((tmp_path / "weights").iterdir()) == []


def test_after_a_sync_all_servers_sample_like_transformers(sampler, policy, chat, openings, tmp_path):
    with torch.no_grad():
        for weight in policy.model.parameters():
            weight += 0.05 * weight.std() * torch.randn(weight.shape, generator=torch.Generator().manual_seed(3))
    sampler.weights_updated()
    own = sample(TransformersSampler(policy.model, chat.eos_id), openings[:16], GREEDY)
    theirs = sample(sampler, openings[:16], GREEDY)
    assert [response.ids for response in theirs] == [response.ids for response in own]
    assert [response.ended for response in theirs] == [response.ended for response in own]
    params = SamplingParams(temperature=0.7, max_tokens=32)
    assert k3(policy, openings[:16], sample(sampler, openings[:16], params), 0.7) < 1e-4
    assert len(list((tmp_path / "weights").glob("*/*"))) == 1


def test_branches_are_sampled_by_the_servers_of_the_run(servers, tmp_path):
    folder = record(tmp_path / "run", prompts=1, engine={"name": "server", "urls": [server.url for server in servers]})
    name = attempts(folder)[0]
    own, theirs = (LocalPlayer.load(Weights.newest(folder), threads=1, servers=chosen) for chosen in (False, True))
    played = [play_on(player, trajectory=name, turn=0, samples=2).events(Turn) for player in (own, theirs)]
    assert [turn.response for turn in played[1]] == [turn.response for turn in played[0]]
    assert isinstance(next(iter(theirs._samplers.values())), ServerSampler)
    for player in (own, theirs):
        player.close()


def play(config, chat, sampler, emit):
    plans = [
        GroupPlan(
            group=group,
            seed=40 + group,
            members=tuple(f"g{group}n{member}" for member in range(4)),
            dynamics_seeds=tuple(range(100 * group, 100 * group + 4)),
            sampling_seeds=tuple(range(1000 * group, 1000 * group + 4)),
        )
        for group in range(4)
    ]
    runner = RolloutRunner(config=config, chat=chat, sampler=sampler, context=2048, emit=emit)
    return runner.play(RolloutRequest(plans, iteration=1, split="train", temperature=1.0))


def test_a_rollout_survives_the_restart_of_a_server(servers, sampler, policy, chat):
    config, turns = settings(servers), []

    def undisturbed(*events):
        turns.extend(event for event in events if isinstance(event, Turn))

    expected = play(config, chat, sampler, undisturbed)
    seen = []

    def disturbed(*events):
        seen.extend(event for event in events if isinstance(event, Turn))
        if len(seen) == 6:
            servers[0].kill()
            servers[0].start()  # unavailable for as long as vLLM takes to start

    again = play(config, chat, sampler, disturbed)
    assert len(seen) == len(turns)
    assert [len(t.turns) for t in again] == [len(t.turns) for t in expected]
    assert [t.ids for t in again] == [t.ids for t in expected]
    assert [server.restarts for server in sampler.servers] == [1, 0]


def test_an_unavailable_server_is_named_with_advice(policy, chat, tmp_path, monkeypatch):
    monkeypatch.setenv(timeouts.ENGINE_SERVER.variable, "1")
    config = RunConfig.model_validate({"engine": {"name": "server", "urls": ["http://127.0.0.1:9"]}})
    with pytest.raises(ServerError, match=r"127\.0\.0\.1:9 was unavailable for 1 s .* raise ECHOSCOPE_TIMEOUT_ENG"):
        ServerSampler(config, policy, chat.eos_id, tmp_path)


def test_servers_end_responses_after_a_text(sampler, policy, chat, openings):
    whole = sample(TransformersSampler(policy.model, chat.eos_id), openings[:8], GREEDY)
    text = chat.decode(whole[0].ids)
    params = dataclasses.replace(GREEDY, stop=StopText(text[len(text) // 2 :][:2], chat.tokenizer))
    own = sample(TransformersSampler(policy.model, chat.eos_id), openings[:8], params)
    theirs = sample(sampler, openings[:8], params)
    assert any(response.stopped for response in own)
    assert [(response.ids, response.stopped) for response in theirs] == [(r.ids, r.stopped) for r in own]
