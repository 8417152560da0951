"""Playing in waves: the same dialogues as all at once, and going on with smaller waves when the memory runs out."""

import pytest
import torch

from tests.trainer import tiny
from trainer.engines.base import SamplingParams
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


def play(sampler, turns=3, restarted=(), listener=None):
    """Every row's responses over some turns; rows in `restarted` begin each of them from a new prompt."""
    session = sampler.session(SEEDS, SamplingParams(max_tokens=6), listener)
    said = {row: [] for row in PROMPTS}
    for row, response in session.generate(PROMPTS):
        said[row].append(response)
        if len(said[row]) < turns:
            if row in restarted:
                session.reset_row(row)
            session.append(row, [20 + row, 21, 22 + len(said[row])])
    return said


def same(one, other):
    for row in PROMPTS:
        assert [response.ids for response in one[row]] == [response.ids for response in other[row]]
        for left, right in zip(one[row], other[row], strict=True):
            assert left.logprobs == pytest.approx(right.logprobs, abs=1e-5)


@pytest.mark.parametrize("rows", [None, 5, 3, 1])
@pytest.mark.parametrize("restarted", [(), (0, 3)])
def test_waves_of_any_size_say_what_all_rows_say_at_once(sampler, rows, restarted):
    same(play(ChunkedSampler(sampler, rows), restarted=restarted), play(sampler, restarted=restarted))


def test_a_wave_that_takes_everybody_gives_the_very_numbers_of_the_sampler_alone(sampler):
    assert play(ChunkedSampler(sampler)) == play(sampler)


def test_no_more_rows_than_a_wave_are_read_at_once(sampler, monkeypatch):
    seen = []
    forward = sampler.model.base_model.forward
    monkeypatch.setattr(
        sampler.model.base_model, "forward", lambda *a, **k: seen.append(len(k["input_ids"])) or forward(*a, **k)
    )
    play(ChunkedSampler(sampler, 2))
    assert max(seen) == 2


def too_many(sampler, monkeypatch, rows, after=0):
    """A forward pass over more rows than these runs out of memory, from the n-th pass on."""
    passes = []
    forward = sampler.model.base_model.forward

    def limited(*arguments, **named):
        passes.append(1)
        if len(named["input_ids"]) > rows and len(passes) > after:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return forward(*arguments, **named)

    monkeypatch.setattr(sampler.model.base_model, "forward", limited)


@pytest.mark.parametrize("after", [0, 4, 9])
def test_memory_that_runs_out_makes_waves_smaller_and_changes_nothing_that_is_said(sampler, monkeypatch, after):
    whole = play(sampler)
    too_many(sampler, monkeypatch, 2, after)
    told = []
    waves = ChunkedSampler(sampler, tell=told.append)
    same(play(waves), whole)
    assert waves.rows <= 2
    assert told
    assert "trajectories were played at once" in told[0]
    assert "rollout.groups" in told[0]


def test_rows_that_had_answered_before_the_memory_ran_out_do_not_answer_again(sampler, monkeypatch):
    too_many(sampler, monkeypatch, 3, after=9)
    assert all(len(responses) == 3 for responses in play(ChunkedSampler(sampler)).values())


def test_a_single_row_that_does_not_fit_ends_with_what_to_set(sampler, monkeypatch):
    too_many(sampler, monkeypatch, 0)
    with pytest.raises(OutOfMemoryError, match=r"single trajectory.*rollout\.max_response_tokens"):
        play(ChunkedSampler(sampler))


def test_a_listener_hears_rows_by_the_numbers_it_knows(sampler):
    class Listener:
        def __init__(self):
            self.heard = {}

        def select_rows(self, rows):
            return [row for row in rows if row == 4]

        def on_tokens(self, row, ids):
            self.heard.setdefault(row, []).append(list(ids))

    listener = Listener()
    said = play(ChunkedSampler(sampler, 2), turns=1, listener=listener)
    assert set(listener.heard) == {4}
    assert all(said[4][0].ids[: len(ids)] == ids for ids in listener.heard[4])
