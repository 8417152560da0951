"""GSPO and CISPO against loops over tokens: losses, and gradients with respect to each log-probability."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.random_batches import Dialogues, dialogues
from trainer.algorithms.losses import LossInputs, policy_loss
from trainer.algorithms.objectives import OBJECTIVES

LOW, HIGH = 0.1, 0.2


def expected(objective: str, d: Dialogues, scale: float) -> tuple[float, dict[tuple[int, int], float]]:
    """The token-mean loss, and its gradient by row and column."""
    logprobs, old, advantages = scale * d.numbers(1), scale * d.numbers(2), d.numbers(3)
    total, gradient = 0.0, {}
    count = max(1, int(d.mask.sum()))
    for row, column in d.mask.nonzero().tolist():
        here = [c for c in range(d.mask.shape[1]) if d.mask[row, c] and d.turns[row, c] == d.turns[row, column]]
        gaps = {c: float(logprobs[row, c] - old[row, c]) for c in here}
        advantage = float(advantages[row, column])
        ratio = math.exp(sum(gaps.values()) / len(gaps)) if objective == "gspo" else math.exp(gaps[column])
        bounded = min(max(ratio, 1 - LOW), 1 + HIGH)
        if objective == "cispo":
            total -= bounded * advantage * float(logprobs[row, column])
            slope = -bounded * advantage
        else:
            total += max(-advantage * ratio, -advantage * bounded)
            slope = -advantage * ratio if -advantage * ratio >= -advantage * bounded else 0.0
        gradient[row, column] = slope / count
    return total / count, gradient


@pytest.mark.parametrize("objective", OBJECTIVES)
@given(d=dialogues(rows=4), scale=st.sampled_from([0.05, 0.5]))
def test_losses_and_gradients_are_those_of_a_loop(objective: str, d: Dialogues, scale: float) -> None:
    logprobs = (scale * d.numbers(1)).requires_grad_()
    inputs = LossInputs(logprobs, scale * d.numbers(2), d.numbers(3), d.mask, turns=d.turns)
    found = policy_loss(inputs, clip_low=LOW, clip_high=HIGH, objective=objective)
    found.loss.backward()
    loss, gradient = expected(objective, d, scale)
    assert float(found.loss.detach()) == pytest.approx(loss, rel=1e-4, abs=1e-5)
    assert logprobs.grad is not None
    assert not logprobs.grad[~d.mask].any()
    for (row, column), value in gradient.items():
        assert float(logprobs.grad[row, column]) == pytest.approx(value, rel=1e-3, abs=1e-5)


def test_a_token_beyond_the_bounds_keeps_its_gradient_in_cispo_only() -> None:
    slopes = {}
    for objective in OBJECTIVES:
        logprobs = torch.tensor([[2.0]], requires_grad=True)
        inputs = LossInputs(logprobs, torch.tensor([[0.0]]), torch.tensor([[1.0]]), torch.ones(1, 1))
        found = policy_loss(inputs, clip_low=LOW, clip_high=HIGH, objective=objective, dual_clip=3.0)
        found.loss.backward()
        assert logprobs.grad is not None
        slopes[objective] = float(logprobs.grad)
        assert float(found.metrics["policy/clip_fraction_high"]) == 1.0
        assert ("policy/clip_fraction_dual" in found.metrics) == (objective == "clip")
    assert slopes == {"clip": 0.0, "gspo": 0.0, "cispo": pytest.approx(-(1 + HIGH))}
