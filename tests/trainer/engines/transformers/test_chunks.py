"""Chunked sampling: the same dialogues as in one session, and smaller chunks after an out-of-memory error."""

import pytest
import torch

from tests.trainer import tiny
from trainer.engines.sampler import SamplingParams
from trainer.engines.transformers.chunks import ChunkedSampler
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.memory.oom import OutOfMemoryError
from trainer.policy.load import load

SEEDS = [11, 12, 13, 14, 15]
PROMPTS = {row: [5 + row, 9, 10 + row, 7] for row in range(len(SEEDS))}


@pytest.fixture(scope="module")
def sampler(tmp_path_factory):
    folder = tiny.save_pocket(tmp_path_factory.mktemp("pocket"))
    policy = load(folder, tiny.config(folder).policy)
    return TransformersSampler(policy.model, policy.tokenizer.eos_token_id, policy.pad_id)


def sample(sampler, turns=3, reset=(), listener=None):
    """Every row's responses over some turns; rows in `reset` are reset before each of them."""
    session = sampler.session(SEEDS, SamplingParams(max_tokens=6), listener)
    responses = {row: [] for row in PROMPTS}
    for row, response in session.generate(PROMPTS):
        responses[row].append(response)
        if len(responses[row]) < turns:
            if row in reset:
                session.reset_row(row)
            session.append(row, [20 + row, 21, 22 + len(responses[row])])
    return responses


def same(one, other):
    for row in PROMPTS:
        assert [response.ids for response in one[row]] == [response.ids for response in other[row]]
        for left, right in zip(one[row], other[row], strict=True):
            assert left.logprobs == pytest.approx(right.logprobs, abs=1e-5)


@pytest.mark.parametrize("rows", [None, 5, 3, 1])
@pytest.mark.parametrize("reset", [(), (0, 3)])
def test_chunks_of_any_size_sample_like_a_single_session(sampler, rows, reset):
    same(sample(ChunkedSampler(sampler, rows), reset=reset), sample(sampler, reset=reset))


def test_a_chunk_of_all_rows_equals_the_plain_sampler(sampler):
    assert sample(ChunkedSampler(sampler)) == sample(sampler)


def test_no_forward_pass_has_more_rows_than_a_chunk(sampler, monkeypatch):
    seen = []
    forward = sampler.model.base_model.forward
    monkeypatch.setattr(
        sampler.model.base_model, "forward", lambda *a, **k: seen.append(len(k["input_ids"])) or forward(*a, **k)
    )
    sample(ChunkedSampler(sampler, 2))
    assert max(seen) == 2


def limit_rows(sampler, monkeypatch, rows, after=0):
    """Make forward passes over more than `rows` rows run out of memory, after the first `after` passes."""
    passes = []
    forward = sampler.model.base_model.forward

    def limited(*arguments, **named):
        passes.append(1)
        if len(named["input_ids"]) > rows and len(passes) > after:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return forward(*arguments, **named)

    monkeypatch.setattr(sampler.model.base_model, "forward", limited)


@pytest.mark.parametrize("after", [0, 4, 9])
def test_out_of_memory_shrinks_chunks_and_leaves_responses_unchanged(sampler, monkeypatch, after):
    whole = sample(sampler)
    limit_rows(sampler, monkeypatch, 2, after)
    messages = []
    chunked = ChunkedSampler(sampler, notify=messages.append)
    same(sample(chunked), whole)
    assert chunked.rows <= 2
    assert messages
    assert "trajectories were sampled at once" in messages[0]
    assert "rollout.groups" in messages[0]


def test_responses_from_before_an_out_of_memory_error_are_not_sampled_again(sampler, monkeypatch):
    limit_rows(sampler, monkeypatch, 3, after=9)
    assert all(len(row) == 3 for row in sample(ChunkedSampler(sampler)).values())


def test_a_single_row_that_does_not_fit_raises_with_advice(sampler, monkeypatch):
    limit_rows(sampler, monkeypatch, 0)
    with pytest.raises(OutOfMemoryError, match=r"single trajectory.*rollout\.max_response_tokens"):
        sample(ChunkedSampler(sampler))


def test_a_listener_receives_outer_row_numbers(sampler):
    class Listener:
        def __init__(self):
            self.received = {}

        def select_rows(self, rows):
            return [row for row in rows if row == 4]

        def on_tokens(self, row, ids):
            self.received.setdefault(row, []).append(list(ids))

    listener = Listener()
    responses = sample(ChunkedSampler(sampler, 2), turns=1, listener=listener)
    assert set(listener.received) == {4}
    assert all(responses[4][0].ids[: len(ids)] == ids for ids in listener.received[4])
