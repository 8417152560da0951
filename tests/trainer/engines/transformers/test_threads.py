"""Multi-threaded sampling: the same dialogues as in one thread, in an order that does not depend on timing."""

import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.patience import SECONDS
from tests.trainer import tiny
from trainer.engines.sampler import DivergedError, SamplingParams
from trainer.engines.transformers import listeners, threads
from trainer.engines.transformers.chunks import ChunkedSampler
from trainer.engines.transformers.threads import ThreadedSession
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.policy.load import load

ROWS = range(7)
PROMPTS = {row: [5 + row // 2, 9, 10 + row // 2, 7] for row in ROWS}


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    folder = tiny.save_pocket(tmp_path_factory.mktemp("pocket"))
    return load(folder, tiny.config(folder).policy)


def sampler_of(policy, count):
    return TransformersSampler(policy.model, policy.tokenizer.eos_token_id, policy.pad_id, count)


def sample(sampler, turns=3, reset=(), listener=None):
    """Every row's responses, and their order. Row 0 has two turns more than the others."""
    session = sampler.session([11 + row for row in ROWS], SamplingParams(max_tokens=6), listener)
    responses, order = {row: [] for row in ROWS}, []
    for row, response in session.generate(PROMPTS):
        responses[row].append(response)
        order.append(row)
        if len(responses[row]) < turns + 2 * (row == 0):
            if row in reset:
                session.reset_row(row)
            session.append(row, [20 + row, 21, 22 + len(responses[row])])
    return responses, order


def compare(one, other):
    for row in ROWS:
        assert [response.ids for response in one[row]] == [response.ids for response in other[row]]
        for left, right in zip(one[row], other[row], strict=True):
            assert left.ended == right.ended
            assert left.logprobs == pytest.approx(right.logprobs, abs=1e-5)
            assert left.entropies == pytest.approx(right.entropies, abs=1e-5)


@pytest.mark.parametrize("number", [1, 2, 3, 20])
@pytest.mark.parametrize("reset", [(), (0, 3)])
def test_any_number_of_threads_samples_like_a_single_session(policy, number, reset):
    responses, _ = sample(sampler_of(policy, number), reset=reset)
    compare(responses, sample(sampler_of(policy, 0), reset=reset)[0])


def test_the_order_does_not_depend_on_which_thread_is_faster(policy, monkeypatch):
    """Both threads have at least three rounds; one of them is delayed in each until the other has finished it."""
    open_session, turns = TransformersSampler.thread_session, 3
    monkeypatch.setattr(threads, "partition_rows", lambda rows, number: [range(4), range(4, 7)])
    results = []
    for last in (11, 15):  # the first seed of the delayed thread
        ended = [threading.Event() for _ in range(turns)]

        def arranged(self, seeds, *rest, last=last, ended=ended):
            session, rounds = open_session(self, seeds, *rest), iter(ended)
            generate = session.generate

            def held_up(prompts):
                now = next(rounds, None)
                if now is not None and seeds[0] == last:
                    assert now.wait(60)
                yield from generate(prompts)
                if now is not None and seeds[0] != last:
                    now.set()

            session.generate = held_up
            return session

        monkeypatch.setattr(TransformersSampler, "thread_session", arranged)
        results.append(sample(sampler_of(policy, 2), turns))
        assert all(event.is_set() for event in ended)
    assert results[0] == results[1]


def test_threads_run_concurrently(policy, monkeypatch):
    both = threading.Barrier(2, timeout=60)
    open_session = TransformersSampler.thread_session

    def meeting(self, *arguments):
        session = open_session(self, *arguments)
        prefill = session._prefill

        def first(tokens):
            session._prefill = prefill
            both.wait()  # no prefill before the other thread's
            return prefill(tokens)

        session._prefill = first
        return session

    monkeypatch.setattr(TransformersSampler, "thread_session", meeting)
    sample(sampler_of(policy, 2), turns=1)


def test_chunks_may_be_sampled_in_threads(policy):
    compare(sample(ChunkedSampler(sampler_of(policy, 2), 4))[0], sample(sampler_of(policy, 0))[0])


def test_an_error_in_a_thread_ends_the_rollout(policy, monkeypatch):
    open_session = TransformersSampler.thread_session

    def broken(self, seeds, *rest):
        session = open_session(self, seeds, *rest)
        if 11 not in seeds:
            session._logits = lambda hidden: torch.full((len(hidden), 64), torch.nan)
        return session

    monkeypatch.setattr(TransformersSampler, "thread_session", broken)
    with pytest.raises(DivergedError):
        sample(sampler_of(policy, 2))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("sampler")]


def test_a_closed_rollout_ends_its_threads_within_a_few_tokens(policy):
    params = SamplingParams(temperature=0.0, max_tokens=400)
    sampler = TransformersSampler(policy.model, -1, policy.pad_id, 2)
    steps = []
    open_session = sampler.thread_session

    def counting(*arguments):
        session = open_session(*arguments)
        sample_step = session._sample_step
        session._sample_step = lambda *arguments: steps.append(1) or sample_step(*arguments)
        return session

    sampler.thread_session = counting
    session = sampler.session([1, 2], params)
    session.sessions[0].params = SamplingParams(temperature=0.0, max_tokens=2)
    responses = session.generate({0: [5, 6], 1: [7, 8]})
    assert next(responses)[0] == 0
    responses.close()
    assert len(steps) < 400
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("sampler")]


def test_the_number_of_torch_threads_is_restored(policy):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        sample(sampler_of(policy, 2), turns=1)
        assert torch.get_num_threads() == 2
        fresh = []
        thread = threading.Thread(target=lambda: fresh.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        assert fresh == [2]
    finally:
        torch.set_num_threads(before)


class Listener:
    def __init__(self, choose):
        self.choose, self.received, self.offered = choose, {}, []

    def select_rows(self, rows):
        self.offered.append(list(rows))
        return self.choose(rows)

    def on_tokens(self, row, ids):
        self.received.setdefault(row, []).append(list(ids))


def test_a_listener_receives_rows_of_every_thread_by_outer_number(policy):
    listener = Listener(lambda rows: [row for row in rows if row in (1, 5)])
    responses, _ = sample(sampler_of(policy, 2), turns=1, listener=listener)
    assert {1, 5} <= set(listener.received)
    for row in (1, 5):
        assert all(any(r.ids[: len(ids)] == ids for r in responses[row]) for ids in listener.received[row])


def test_a_listener_can_select_one_row_from_all_threads(policy, monkeypatch):
    """A listener of any row selects the first of all, not one per thread. Both threads are in a round at one time."""
    select_rows, both, met = listeners._ThreadListener.select_rows, threading.Barrier(2, timeout=SECONDS), set()

    def meeting(self, rows):
        selected = select_rows(self, rows)
        if self.thread in met:
            return selected
        met.add(self.thread)
        both.wait()
        return select_rows(self, rows)

    monkeypatch.setattr(listeners._ThreadListener, "select_rows", meeting)
    listener = Listener(lambda rows: [min(rows)] if rows else [])
    sample(sampler_of(policy, 2), turns=1, listener=listener)
    together = [rows for rows in listener.offered if min(rows) < 3 and max(rows) > 3]
    assert together, "a listener is offered the active rows of all threads"


def test_rows_of_a_thread_that_has_ended_are_not_offered(policy):
    """Row 0 is sampled longest: while it is the only active row, no other row is offered."""
    listener = Listener(lambda rows: [max(rows)] if rows else [])
    sample(sampler_of(policy, 2), turns=1, listener=listener)
    assert listener.offered[-1] == [0], "the other thread's rows have ended"
    assert 0 in listener.received


@given(st.integers(1, 300), st.integers(1, 8))
def test_the_partition_is_contiguous_and_even(rows, number):
    parts = threads.partition_rows(rows, number)
    assert [row for part in parts for row in part] == list(range(rows))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize(
    ("cores", "rows", "expected"), [(1, 128, 0), (2, 8, 1), (2, 23, 1), (2, 24, 2), (2, 128, 2), (8, 300, 4)]
)
def test_the_thread_count_is_limited_by_cores_and_rows(policy, monkeypatch, cores, rows, expected):
    monkeypatch.setattr(torch, "get_num_threads", lambda: cores)
    assert threads.thread_count(rows, policy.model) == expected


def test_a_large_model_uses_all_cores_for_each_layer(policy, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(threads, "MAX_THREADED_BYTES", 1000)
    assert threads.thread_count(128, policy.model) == 0
    session = TransformersSampler(policy.model, 2).session([1] * 128, SamplingParams())
    assert not isinstance(session, ThreadedSession)
