"""Decoding steps of fixed shapes: the same tokens and log-probabilities as those of ragged rows."""

from __future__ import annotations

import pytest
import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from tests.trainer.engines.transformers.test_transformers_sampler import EOS, LATER, PROMPTS, EarlyEnding, same, sample
from trainer.config.run import PolicyConfig
from trainer.engines.sampler import SamplingParams
from trainer.engines.transformers import decode_steps, kv_cache
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.policy.load import load
from trainer.policy.packing import attention, grouped_attention


@pytest.fixture(params=["pocket", "llama"])
def model(request, pocket_folder, llama_folder):
    folder = {"pocket": pocket_folder, "llama": llama_folder}[request.param]
    return load(folder, PolicyConfig(device="cpu")).model


def static(sampler):
    sampler.decoding = "static"
    return sampler


def test_padded_steps_equal_ragged_ones(model, monkeypatch):
    monkeypatch.setattr(decode_steps, "WIDTH_STEP", 16)  # several widths within these short dialogues
    _, expected = sample(EarlyEnding(model), range(6))
    _, found = sample(static(EarlyEnding(model)), range(6))
    for row in range(6):
        same(found[row], expected[row])


def test_rows_that_pause_are_not_changed_by_the_padding_of_others(model):
    """Their slots are the padding of the rows that go on."""
    params, seeds = SamplingParams(max_tokens=9), range(20)
    ragged, padded = (sampler.session(seeds, params) for sampler in (EarlyEnding(model), static(EarlyEnding(model))))
    for session in (ragged, padded):
        session.threads = 0
    for rows in (range(20), (3, 7, 11), (0, 1, 2, 3, 4, 5, 6, 7, 8, 15), (19,), range(20)):
        prompts = {row: PROMPTS[row % 6] + LATER[(row + len(rows)) % 6] for row in rows}
        expected, found = dict(ragged.generate(prompts)), dict(padded.generate(prompts))
        assert expected.keys() == found.keys() == set(rows)
        for row in rows:
            same([found[row]], [expected[row]])


def test_heads_that_share_keys_are_sampled_without_repeating_them(model, monkeypatch):
    """What a GPU computes: the grouped kernel, at fixed shapes, with rows exchanged by a few kernels."""
    _, expected = sample(EarlyEnding(model), range(6))
    calls = []
    monkeypatch.setattr(grouped_attention, "GROUPED_DEVICES", {"cpu"})
    monkeypatch.setattr(attention, "GROUPED_DEVICES", {"cpu"})
    whole = attention.attend_grouped
    monkeypatch.setattr(attention, "attend_grouped", lambda *given: calls.append(1) or whole(*given))
    before = model.config._attn_implementation
    try:
        _, found = sample(static(EarlyEnding(model)), range(6))
    finally:
        model.config._attn_implementation = before
    assert calls
    for row in range(6):
        same(found[row], expected[row])


def test_grouped_attention_equals_repeated_heads():
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 6, 1, 8), torch.randn(3, 2, 11, 8), torch.randn(3, 2, 11, 8)
    mask = torch.zeros(3, 1, 1, 11).masked_fill_(
        torch.arange(11) > torch.tensor([4, 10, 0])[:, None, None, None], -torch.inf
    )
    module = torch.nn.Module()
    module.num_key_value_groups = 3
    expected, _ = sdpa_attention_forward(module, query, key, value, mask, scaling=0.4)
    assert torch.allclose(grouped_attention.attend_grouped(query, key, value, mask, 0.4), expected, atol=1e-6)


def test_rows_of_several_buffers_are_exchanged():
    buffers = [torch.randn(4, 2, 5, 3) for _ in range(3)]
    expected = [buffer[[0, 3, 2, 1]] for buffer in buffers]
    kv_cache.swap_rows(buffers, 1, 3)
    for buffer, wanted in zip(buffers, expected, strict=True):
        assert torch.equal(buffer, wanted)


@pytest.mark.parametrize(
    ("active", "rows", "padded"),
    [(1, 128, 1), (3, 128, 4), (8, 128, 8), (9, 128, 16), (60, 128, 64), (97, 128, 128), (5, 6, 6), (20, 20, 20)],
)
def test_rows_are_padded_to_a_few_sizes_within_the_cache(active, rows, padded):
    assert decode_steps.padded_rows(active, rows) == padded


def test_the_width_never_exceeds_the_cache():
    assert decode_steps.padded_width(1, 1000) == 256
    assert decode_steps.padded_width(257, 1000) == 512
    assert decode_steps.padded_width(257, 300) == 300


def test_a_cpu_samples_ragged_rows_and_a_gpu_replays_graphs(pocket_folder):
    model = load(pocket_folder, PolicyConfig(device="cpu")).model
    assert TransformersSampler(model, EOS).decoding == "ragged"
    assert decode_steps.default_mode(torch.device("cuda")) == "graphs"
