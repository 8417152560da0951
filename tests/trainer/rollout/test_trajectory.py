"""Trajectories as tensors: padding, selection, and positions of rewards."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainer.journal.events import Turn
from trainer.rollout.trajectory import Trajectory, collate

amounts = st.floats(-20, 20, width=32)


def turn(number, reward, tokens):
    return Turn(
        trajectory="t",
        turn=number,
        state="",
        response="",
        thought="",
        answer="",
        format_valid=True,
        actions=[],
        reward=reward,
        terms={"environment": reward},
        tokens=tokens,
        truncated=False,
        entropy=0.0,
        logprob=0.0,
    )


@st.composite
def trajectories(draw, group=0):
    played = Trajectory(id="t", group=group, member=0)
    for number in range(draw(st.integers(1, 3))):
        played.append_prompt(draw(st.lists(st.integers(10, 19), min_size=1, max_size=3)))
        ids = draw(st.lists(st.integers(20, 29), min_size=1, max_size=4))
        played.append_response(ids, [-1.0 - n for n in range(len(ids))], [0.5] * len(ids), number)
        played.turns.append(turn(number, draw(amounts), len(ids)))
    return played


@given(st.lists(trajectories(), min_size=1, max_size=4))
def test_a_batch_holds_every_trajectory_and_neutral_padding(played):
    batch = collate(played, pad_id=99)
    assert len(batch) == len(played)
    for row, one in enumerate(played):
        size = len(one.ids)
        assert batch.ids[row, :size].tolist() == one.ids
        assert batch.ids[row, size:].eq(99).all()
        assert batch.attention[row].tolist() == [True] * size + [False] * (batch.ids.shape[1] - size)
        assert batch.mask[row, :size].tolist() == one.sampled
        assert batch.turn_of[row, :size].tolist() == one.turn_of
        assert batch.sampler_logprobs[row, :size].tolist() == one.logprobs
        for tensor in (batch.mask, batch.rewards, batch.sampler_logprobs):
            assert not tensor[row, size:].any()
        assert one.tokens == int(batch.mask[row].sum())


@given(st.lists(trajectories(), min_size=1, max_size=4))
def test_each_turns_reward_lies_on_its_last_sampled_token(played):
    batch = collate(played, pad_id=0)
    for row, one in enumerate(played):
        for moment in one.turns:
            columns = (batch.turn_of[row] == moment.turn).nonzero()[:, 0]
            assert float(batch.rewards[row, columns[-1]]) == pytest.approx(moment.reward)
            assert not batch.rewards[row, columns[:-1]].any()
        assert float(batch.total_rewards[row]) == pytest.approx(one.total_reward, abs=1e-5)


@given(st.lists(trajectories(), min_size=1, max_size=4))
def test_outcome_rewards_lie_on_the_last_token(played):
    batch = collate(played, pad_id=0, outcome=True)
    for row, one in enumerate(played):
        last = int(batch.mask[row].nonzero().max())
        assert float(batch.rewards[row, last]) == pytest.approx(one.total_reward, abs=1e-4)
        others = batch.rewards[row].clone()
        others[last] = 0
        assert not others.any()


@given(st.lists(trajectories(), min_size=2, max_size=5), st.data())
def test_selected_rows_are_the_same_rows_cut_to_the_longest(played, data):
    batch = collate(played, pad_id=0)
    rows = data.draw(st.lists(st.integers(0, len(played) - 1), min_size=1, max_size=4))
    chosen = batch.select(torch.tensor(rows))
    alone = collate([played[row] for row in rows], pad_id=0)
    for name in ("ids", "attention", "mask", "sampler_logprobs", "rewards", "turn_of", "group", "total_rewards"):
        assert torch.equal(getattr(chosen, name), getattr(alone, name)), name


def test_only_executed_actions_are_counted():
    one = Trajectory(id="t", group=0, member=0)
    moment = turn(0, 0.0, 1).model_dump()
    moment["actions"] = [
        {"text": "up", "status": "executed", "name": "Up"},
        {"text": "fly", "status": "illegal"},
        {"text": "up", "status": "ignored", "name": "Up"},
    ]
    one.turns.append(Turn.model_validate(moment))
    assert one.actions == 1
