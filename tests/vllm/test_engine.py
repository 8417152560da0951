"""vLLM engine next to the learner: same tokens, same log-probabilities, new weights after a sync."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from tests.vllm.conftest import pocket
from tests.vllm.shapes import GREEDY, dialogue, k3, sample, scored
from trainer.config.run import RunConfig
from trainer.engines.sampler import DivergedError, SamplingParams
from trainer.engines.stop_text import StopText
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.seeds import derive


class RowListener:
    """Records the tokens of one row."""

    def __init__(self, row):
        self.row, self.received = row, []

    def select_rows(self, rows):
        return [row for row in rows if row == self.row]

    def on_tokens(self, row, ids):
        self.received.append((row, ids))


def change(policy, seed=0):
    """Change the weights, more than an update does."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in policy.model.parameters():
            weight += 0.05 * weight.std() * torch.randn(weight.shape, generator=generator)


def test_after_a_sync_greedy_output_equals_transformers_for_64_prompts(sampler, policy, chat, openings):
    change(policy)
    sampler.weights_updated()
    own = sample(TransformersSampler(policy.model, chat.eos_id), openings, GREEDY)
    theirs = sample(sampler, openings, GREEDY)
    assert len({tuple(response.ids) for response in own}) > 8
    assert [response.ids for response in theirs] == [response.ids for response in own]
    assert [response.ended for response in theirs] == [response.ended for response in own]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_mismatch_is_large_before_a_sync_and_vanishes_after_it(
    sampler, policy, openings, temperature, record_property
):
    params = SamplingParams(temperature=temperature, max_tokens=32)
    sampler.weights_updated()
    assert k3(policy, openings, sample(sampler, openings, params), temperature) < 1e-4
    change(policy, seed=round(10 * temperature))
    before = k3(policy, openings, sample(sampler, openings, params), temperature)
    sampler.weights_updated()
    after = k3(policy, openings, sample(sampler, openings, params), temperature)
    record_property("k3_before", before)
    record_property("k3_after", after)
    assert before > 1e-3
    assert after < 1e-4


def test_a_prefix_cached_with_old_weights_is_dropped(sampler, policy, openings):
    sample(sampler, openings[:2], GREEDY)
    change(policy, seed=5)
    sampler.weights_updated()
    for prompt, response in zip(openings[:2], sample(sampler, openings[:2], GREEDY), strict=True):
        assert torch.allclose(scored(policy, prompt, response), torch.tensor(response.logprobs), atol=1e-4)


def test_samples_of_a_row_depend_on_its_seed_and_turn_only(sampler, chat, openings):
    params = SamplingParams(max_tokens=12)
    later = chat.between("Turn 2", ended=True)
    together = dialogue(sampler, {0: openings[0], 1: openings[1], 2: openings[0]}, later, 3, params)
    alone = dialogue(sampler, {1: openings[1]}, later, 3, params)
    assert [response.ids for response in together[1]] == [response.ids for response in alone[1]]
    assert [response.ids for response in together[0]] != [response.ids for response in together[2]]
    assert derive(100, 0) != derive(100, 1)


def test_a_row_continues_while_another_is_sampled(sampler, openings):
    """Continuous batching: a row with short responses has several turns before the first long response ends."""
    session = sampler.session([1, 2], SamplingParams(max_tokens=100))
    (stop,) = sampler.end_ids
    order = []
    for row, _ in session.generate({0: [*openings[0]], 1: [stop, 5, 9]}):
        order.append(row)
        if row == 0 and order.count(0) < 4:
            session.append(0, openings[0])
    assert order.count(0) == 4
    assert order.count(1) == 1


def test_the_temperature_is_applied(sampler, policy, openings):
    greedy = sample(sampler, openings[:4], GREEDY)
    cold = sample(sampler, openings[:4], SamplingParams(temperature=0.01, max_tokens=GREEDY.max_tokens))
    assert [response.ids for response in cold] == [response.ids for response in greedy]
    hot = sample(sampler, openings[:4], SamplingParams(temperature=2.0, max_tokens=GREEDY.max_tokens))
    assert [response.ids for response in hot] != [response.ids for response in greedy]


def test_entropies_that_vllm_does_not_report_are_nan(sampler, openings):
    (response,) = sample(sampler, openings[:1], SamplingParams(max_tokens=8))
    assert len(response.ids) == len(response.logprobs) == len(response.entropies)
    assert all(math.isnan(entropy) for entropy in response.entropies)


def test_a_reset_row_starts_from_the_first_token(sampler, openings):
    session = sampler.session([0], GREEDY)
    list(session.generate({0: openings[0]}))
    session.reset_row(0)
    again = dict(session.generate({0: openings[1]}))[0]
    assert again.ids == sample(sampler, openings[1:2], GREEDY)[0].ids


def test_a_listener_receives_its_growing_row(sampler, openings):
    listener = RowListener(1)
    session = sampler.session([1, 2, 3], SamplingParams(max_tokens=24), listener)
    response = dict(session.generate(dict(enumerate(openings[:3]))))[1]
    assert len(listener.received) > 1
    for row, ids in listener.received:
        assert row == 1
        assert ids == response.ids[: len(ids)]


def test_an_aborted_rollout_leaves_no_requests_behind(sampler, openings):
    playing = sampler.session([1, 2], SamplingParams(max_tokens=64)).generate(dict(enumerate(openings[:2])))
    next(playing)
    playing.close()
    assert not sampler.engine.core.has_unfinished_requests()
    assert sample(sampler, openings[:1], GREEDY)


def test_an_empty_prompt_is_refused(sampler):
    with pytest.raises(ValueError, match="at least one token"):
        list(sampler.session([1], GREEDY).generate({0: []}))


def test_diverged_weights_are_reported_as_the_cause(sampler, chat, openings):
    policy = sampler.engine.policy
    saved = {name: tensor.clone() for name, tensor in policy.model.state_dict().items()}
    with torch.no_grad():
        policy.model.model.norm.weight.fill_(math.nan)
    sampler.weights_updated()
    try:
        with pytest.raises(DivergedError, match=r"optimizer\.policy_lr"):
            sample(sampler, openings[:2], SamplingParams(max_tokens=4))
    finally:
        policy.model.load_state_dict(saved)
        sampler.weights_updated()
    fresh = sample(TransformersSampler(policy.model, chat.eos_id), openings[:2], GREEDY)
    assert [response.ids for response in sample(sampler, openings[:2], GREEDY)] == [response.ids for response in fresh]


def test_responses_that_stop_at_a_text_equal_those_of_transformers(sampler, policy, chat, openings):
    sampler.weights_updated()
    whole = sample(TransformersSampler(policy.model, chat.eos_id), openings, GREEDY)
    text = chat.decode(whole[0].ids)
    params = dataclasses.replace(GREEDY, stop=StopText(text[len(text) // 2 :][:2], chat.tokenizer))
    own = sample(TransformersSampler(policy.model, chat.eos_id), openings, params)
    theirs = sample(sampler, openings, params)
    assert any(response.stopped for response in own)
    assert [response.ids for response in theirs] == [response.ids for response in own]
    assert [response.stopped for response in theirs] == [response.stopped for response in own]


def test_the_engine_restores_random_state_and_threads():
    """Last in this module: closing an engine ends the process groups that the module's engine needs, too."""
    from trainer.engines.vllm.vllm_engine import VllmEngine

    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    torch.set_num_threads(2)
    engine = VllmEngine(RunConfig.model_validate({"engine": {"name": "vllm"}}), pocket())
    try:
        assert torch.equal(torch.rand(3), expected)
        assert torch.get_num_threads() == 2
        torch.set_num_threads(1)
        assert torch.get_num_threads() == 1
    finally:
        engine.close()
