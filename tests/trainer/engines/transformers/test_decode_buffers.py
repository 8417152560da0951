"""Buffers that a session leaves to the next one: the same responses, and none while another session uses them."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from tests.trainer.engines.transformers.test_transformers_sampler import PROMPTS, EarlyEnding, same
from trainer.config.run import PolicyConfig
from trainer.engines.sampler import SamplingParams
from trainer.engines.transformers import decode_buffers
from trainer.policy.load import load

PARAMS = SamplingParams(max_tokens=9)


@pytest.fixture
def sampler(pocket_folder, monkeypatch):
    """A sampler that keeps its buffers, as on a GPU."""
    monkeypatch.setattr(decode_buffers, "KEPT_MODES", {"static"})
    sampler = EarlyEnding(load(pocket_folder, PolicyConfig(device="cpu")).model)
    sampler.decoding, sampler.threads = "static", 0
    return sampler


def play(session):
    return dict(session.generate(dict(enumerate(PROMPTS))))


def test_the_next_session_samples_the_same_in_the_buffers_of_the_last(sampler):
    session = sampler.session(range(6), PARAMS)
    cache, expected = session.cache, play(session)
    del session
    again = sampler.session(range(6), PARAMS)
    assert again.cache is cache
    found = play(again)
    for row in range(6):
        same([found[row]], [expected[row]])


def test_an_open_session_keeps_its_buffers(sampler):
    one, other = sampler.session(range(6), PARAMS), sampler.session(range(6), PARAMS)
    assert one.cache is not other.cache
    found, expected = play(one), play(other)
    for row in range(6):
        same([found[row]], [expected[row]])


def test_other_rows_and_moved_weights_need_new_buffers(sampler):
    cache = sampler.session(range(6), PARAMS).cache
    assert sampler.session(range(5), PARAMS).cache is not cache
    cache = sampler.session(range(6), PARAMS).cache
    assert sampler.session(range(6), PARAMS).cache is cache
    weight = next(sampler.model.parameters())
    weight.data = weight.data.clone()
    assert sampler.session(range(6), PARAMS).cache is not cache


def test_large_buffers_are_dropped_between_two_rollouts(sampler, monkeypatch):
    monkeypatch.setattr(decode_buffers, "_memory", lambda device: 2**40)
    session = sampler.session(range(6), PARAMS)
    cache = session.cache
    play(session)
    assert cache.bytes > 0
    del session
    sampler.sleep()
    assert sampler.session(range(6), PARAMS).cache is cache
    monkeypatch.setattr(decode_buffers, "_memory", lambda device: cache.bytes)
    sampler.sleep()
    assert sampler.session(range(6), PARAMS).cache is not cache


def test_buffers_that_are_lent_again_are_empty(sampler):
    session = sampler.session(range(6), PARAMS)
    play(session)
    del session
    cache = sampler.session(range(6), PARAMS).cache
    assert cache.length == [0] * 6
    assert all(not torch.count_nonzero(layer.keys) for layer in cache.layers)


def test_a_session_frees_its_memory_when_it_ends(pocket_folder):
    """Without waiting for the garbage collector."""
    sampler = EarlyEnding(load(pocket_folder, PolicyConfig(device="cpu")).model)
    session = sampler.session(range(6), PARAMS)
    play(session)
    keys = weakref.ref(session.cache.layers[0].keys)
    gc.disable()
    try:
        del session
        assert keys() is None
    finally:
        gc.enable()
