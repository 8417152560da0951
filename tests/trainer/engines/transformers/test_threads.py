"""Playing in threads: the same dialogues as in one, in an order that no thread's pace decides."""

import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer import tiny
from trainer.engines.base import DivergedError, SamplingParams
from trainer.engines.transformers import threads as lanes
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


def sampler_of(policy, lanes):
    return TransformersSampler(policy.model, policy.tokenizer.eos_token_id, policy.pad_id, lanes)


def play(sampler, turns=3, restarted=(), listener=None):
    """Every row's responses, and the order in which they came. Row 0 plays two turns more than the others."""
    session = sampler.session([11 + row for row in ROWS], SamplingParams(max_tokens=6), listener)
    said, order = {row: [] for row in ROWS}, []
    for row, response in session.generate(PROMPTS):
        said[row].append(response)
        order.append(row)
        if len(said[row]) < turns + 2 * (row == 0):
            if row in restarted:
                session.reset_row(row)
            session.append(row, [20 + row, 21, 22 + len(said[row])])
    return said, order


def compare(one, other):
    for row in ROWS:
        assert [response.ids for response in one[row]] == [response.ids for response in other[row]]
        for left, right in zip(one[row], other[row], strict=True):
            assert left.ended == right.ended
            assert left.logprobs == pytest.approx(right.logprobs, abs=1e-5)
            assert left.entropies == pytest.approx(right.entropies, abs=1e-5)


@pytest.mark.parametrize("number", [1, 2, 3, 20])
@pytest.mark.parametrize("restarted", [(), (0, 3)])
def test_any_number_of_lanes_says_what_one_session_says(policy, number, restarted):
    said, _ = play(sampler_of(policy, number), restarted=restarted)
    compare(said, play(sampler_of(policy, 0), restarted=restarted)[0])


def test_no_lane_decides_by_its_pace_who_comes_first(policy, monkeypatch):
    """Both lanes play three rounds at least: either of them is held up in each until the other has ended it."""
    lane, turns = TransformersSampler.lane, 3
    monkeypatch.setattr(lanes, "shares", lambda rows, number: [range(4), range(4, 7)])
    found = []
    for last in (11, 15):  # the first seed of the lane that is held up
        ended = [threading.Event() for _ in range(turns)]

        def arranged(self, seeds, *rest, last=last, ended=ended):
            session, rounds = lane(self, seeds, *rest), iter(ended)
            generate = session.generate

            def playing(asked):
                now = next(rounds, None)
                if now is not None and seeds[0] == last:
                    assert now.wait(60)
                yield from generate(asked)
                if now is not None and seeds[0] != last:
                    now.set()

            session.generate = playing
            return session

        monkeypatch.setattr(TransformersSampler, "lane", arranged)
        found.append(play(sampler_of(policy, 2), turns))
        assert all(event.is_set() for event in ended)
    assert found[0] == found[1]


def test_lanes_work_at_the_same_time(policy, monkeypatch):
    both = threading.Barrier(2, timeout=60)
    lane = TransformersSampler.lane

    def meeting(self, *arguments):
        session = lane(self, *arguments)
        reading = session._prefill

        def first(fresh):
            session._prefill = reading
            both.wait()  # nobody reads before the other lane does
            return reading(fresh)

        session._prefill = first
        return session

    monkeypatch.setattr(TransformersSampler, "lane", meeting)
    play(sampler_of(policy, 2), turns=1)


def test_waves_may_be_played_in_lanes(policy):
    compare(play(ChunkedSampler(sampler_of(policy, 2), 4))[0], play(sampler_of(policy, 0))[0])


def test_what_a_lane_raises_ends_the_rollout(policy, monkeypatch):
    lane = TransformersSampler.lane

    def broken(self, seeds, *rest):
        session = lane(self, seeds, *rest)
        if 11 not in seeds:
            session._logits = lambda hidden: torch.full((len(hidden), 64), torch.nan)
        return session

    monkeypatch.setattr(TransformersSampler, "lane", broken)
    with pytest.raises(DivergedError):
        play(sampler_of(policy, 2))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("lane")]


def test_a_rollout_that_is_left_ends_its_threads_within_a_few_tokens(policy):
    params = SamplingParams(temperature=0.0, max_tokens=400)
    sampler = TransformersSampler(policy.model, -1, policy.pad_id, 2)
    drawn = []
    lane = sampler.lane

    def counting(*arguments):
        session = lane(*arguments)
        drawing = session._draw
        session._draw = lambda *given: drawn.append(1) or drawing(*given)
        return session

    sampler.lane = counting
    session = sampler.session([1, 2], params)
    session.lanes[0].params = SamplingParams(temperature=0.0, max_tokens=2)
    responses = session.generate({0: [5, 6], 1: [7, 8]})
    assert next(responses)[0] == 0
    responses.close()
    assert len(drawn) < 400
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("lane")]


def test_the_number_of_threads_is_as_before(policy):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        play(sampler_of(policy, 2), turns=1)
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
        self.choose, self.heard, self.offered = choose, {}, []

    def select_rows(self, rows):
        self.offered.append(list(rows))
        return self.choose(rows)

    def on_tokens(self, row, ids):
        self.heard.setdefault(row, []).append(list(ids))


def test_a_listener_hears_rows_of_every_lane_by_their_numbers(policy):
    listener = Listener(lambda rows: [row for row in rows if row in (1, 5)])
    said, _ = play(sampler_of(policy, 2), turns=1, listener=listener)
    assert {1, 5} <= set(listener.heard)
    for row in (1, 5):
        assert all(any(r.ids[: len(ids)] == ids for r in said[row]) for ids in listener.heard[row])


def test_who_picks_one_row_among_all_hears_one_lane(policy):
    """Somebody who watches whatever is played picks the first of all: not one of each lane."""
    listener = Listener(lambda rows: [min(rows)] if rows else [])
    play(sampler_of(policy, 2), turns=1, listener=listener)
    together = [rows for rows in listener.offered if min(rows) < 3 and max(rows) > 3]
    assert together, "a listener is offered the rows of all lanes that are being continued"


def test_a_lane_that_has_ended_does_not_keep_who_picks_one_row_from_the_others(policy):
    """Row 0 plays longest: while it is played alone, nobody else is offered; all that are offered are played."""
    listener = Listener(lambda rows: [max(rows)] if rows else [])
    play(sampler_of(policy, 2), turns=1, listener=listener)
    assert listener.offered[-1] == [0], "the other lane's rows have ended"
    assert 0 in listener.heard


@given(st.integers(1, 300), st.integers(1, 8))
def test_shares_are_neighbours_and_even(rows, number):
    found = lanes.shares(rows, number)
    assert [row for share in found for row in share] == list(range(rows))
    assert max(map(len, found)) - min(map(len, found)) <= 1


@pytest.mark.parametrize(
    ("threads", "rows", "expected"), [(1, 128, 0), (2, 8, 1), (2, 23, 1), (2, 24, 2), (2, 128, 2), (8, 300, 4)]
)
def test_as_many_lanes_as_cores_and_rows_allow(policy, monkeypatch, threads, rows, expected):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert lanes.thread_count(rows, policy.model) == expected


def test_a_large_model_keeps_all_cores_for_each_layer(policy, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(lanes, "SMALL", 1000)
    assert lanes.thread_count(128, policy.model) == 0
    session = TransformersSampler(policy.model, 2).session([1] * 128, SamplingParams())
    assert not isinstance(session, ThreadedSession)
