from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.trainer.random_batches import Dialogues, dialogues
from trainer.algorithms import losses
from trainer.algorithms.aggregations import AGGREGATIONS
from trainer.algorithms.losses import LossInputs, LossOutputs, LossTotals, ValueLossInputs

CLIPS = {"clip_low": 0.2, "clip_high": 0.28}


def tokens(*numbers: float) -> Tensor:
    return torch.tensor([numbers])


def entropy(logits: Tensor) -> Tensor:
    return losses.entropy_from_logprobs(torch.log_softmax(logits, dim=-1))


def policy(d: Dialogues, how: str, logprobs: Tensor, rows: slice, totals: LossTotals | None) -> LossOutputs:
    inputs = LossInputs(logprobs[rows], d.numbers(1)[rows], d.numbers(2)[rows], d.mask[rows], totals)
    return losses.policy_loss(inputs, clip_low=0.2, clip_high=0.28, dual_clip=3.0, aggregation=how)


@pytest.mark.parametrize("how", AGGREGATIONS)
@given(d=dialogues(rows=6), size=st.integers(1, 4))
def test_micro_batches_add_up_to_the_loss_and_gradient_of_the_whole_batch(how: str, d: Dialogues, size: int) -> None:
    whole = (0.5 * d.numbers(3)).requires_grad_()
    at_once = policy(d, how, whole, slice(None), None)
    at_once.loss.backward()

    parts = whole.detach().clone().requires_grad_()
    totals = LossTotals.of(d.mask)
    shares = [policy(d, how, parts, slice(start, start + size), totals) for start in range(0, len(d.mask), size)]
    for share in shares:
        share.loss.backward()

    assert whole.grad is not None
    assert parts.grad is not None
    torch.testing.assert_close(parts.grad, whole.grad, rtol=1e-4, atol=1e-6)
    whole_loss = float(at_once.loss.detach())
    assert sum(float(share.loss.detach()) for share in shares) == pytest.approx(whole_loss, rel=1e-4, abs=1e-5)
    assert len(at_once.metrics) == 4
    for name, value in at_once.metrics.items():
        added = sum(float(share.metrics[name]) for share in shares)
        assert added == pytest.approx(float(value), rel=1e-4, abs=1e-5), name


@pytest.mark.parametrize("how", AGGREGATIONS)
@given(d=dialogues(rows=6))
def test_critic_micro_batches_add_up_to_the_gradient_of_the_whole_batch(how: str, d: Dialogues) -> None:
    def loss(values: Tensor, rows: slice, totals: LossTotals | None) -> Tensor:
        old, returns = d.numbers(1)[rows], d.numbers(2)[rows]
        return losses.value_loss(
            ValueLossInputs(values[rows], old, returns, d.mask[rows], totals), clip=0.5, aggregation=how
        ).loss

    whole = d.numbers(3).requires_grad_()
    parts = d.numbers(3).requires_grad_()
    loss(whole, slice(None), None).backward()
    for row in range(len(d.mask)):
        loss(parts, slice(row, row + 1), LossTotals.of(d.mask)).backward()
    assert whole.grad is not None
    assert parts.grad is not None
    torch.testing.assert_close(parts.grad, whole.grad, rtol=1e-4, atol=1e-6)


def test_totals_of_parts_add_up_to_the_totals_of_the_whole() -> None:
    mask = torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 1]])
    assert LossTotals.of(mask) == LossTotals(tokens=5, sequences=2, max_length=mask.shape[1])
    assert LossTotals.of(mask[:1]) + LossTotals.of(mask[1:]) == LossTotals.of(mask)


@pytest.mark.parametrize("how", AGGREGATIONS)
@pytest.mark.parametrize("rubbish", [float("nan"), float("inf"), -1e30])
@given(d=dialogues())
def test_environment_tokens_affect_neither_loss_nor_gradient(how: str, rubbish: float, d: Dialogues) -> None:
    def run(fill: float) -> tuple[Tensor, Tensor]:
        logprobs = d.rubbish(d.numbers(3), fill).requires_grad_()
        values = d.rubbish(d.numbers(4), fill).requires_grad_()
        old, advantages = d.rubbish(d.numbers(1), fill), d.rubbish(d.numbers(2), fill)
        of_policy = LossInputs(logprobs, old, advantages, d.mask)
        of_critic = ValueLossInputs(values, old, advantages, d.mask)
        loss = (
            losses.policy_loss(of_policy, dual_clip=3.0, **CLIPS, aggregation=how).loss
            + losses.value_loss(of_critic, clip=0.5, aggregation=how).loss
        )
        loss.backward()
        assert logprobs.grad is not None
        assert values.grad is not None
        return loss.detach(), torch.stack([logprobs.grad, values.grad])

    loss, gradient = run(0.0)
    dirty_loss, dirty_gradient = run(rubbish)
    assert torch.equal(loss, dirty_loss)
    assert torch.equal(gradient, dirty_gradient)
    assert not gradient[:, ~d.mask].any()


@pytest.mark.parametrize("how", AGGREGATIONS)
def test_a_batch_without_policy_tokens_has_zero_loss_and_a_backward_pass(how: str) -> None:
    logprobs = torch.randn(2, 3, requires_grad=True)
    empty = torch.zeros(2, 3)
    found = losses.policy_loss(
        LossInputs(logprobs, torch.zeros(2, 3), torch.ones(2, 3), empty), **CLIPS, aggregation=how
    )
    found.loss.backward()
    assert found.loss.item() == 0.0
    assert logprobs.grad is not None
    assert not logprobs.grad.any()


def test_on_policy_the_gradient_is_the_policy_gradient() -> None:
    logprobs = tokens(-1.0, -2.0, -0.5).requires_grad_()
    advantages = tokens(1.0, -2.0, 0.5)
    found = losses.policy_loss(LossInputs(logprobs, logprobs.detach(), advantages, torch.ones(1, 3)), **CLIPS)
    found.loss.backward()
    assert logprobs.grad is not None
    torch.testing.assert_close(logprobs.grad, -advantages / 3)
    assert [
        float(found.metrics["policy/clip_fraction_low"]),
        float(found.metrics["policy/clip_fraction_high"]),
        float(found.metrics["policy/kl_to_rollout"]),
    ] == [0, 0, 0]


def test_each_clip_bound_stops_the_gradient_on_its_side_only() -> None:
    """Ratios 1.3, 1.25, 0.7, 0.9: only the first is above 1.28 and only the third below 0.8."""
    ratios = [1.3, 1.25, 0.7, 0.9]
    logprobs = tokens(*(math.log(r) for r in ratios)).requires_grad_()
    advantages = tokens(1.0, 1.0, -1.0, -1.0)
    found = losses.policy_loss(LossInputs(logprobs, torch.zeros(1, 4), advantages, torch.ones(1, 4)), **CLIPS)
    found.loss.backward()
    assert logprobs.grad is not None
    assert (logprobs.grad != 0).tolist() == [[False, True, False, True]]
    assert float(found.metrics["policy/clip_fraction_high"]) == 0.25
    assert float(found.metrics["policy/clip_fraction_low"]) == 0.25


@pytest.mark.parametrize("objective, dual", [("clip", None), ("clip", 3.0), ("gspo", None), ("cispo", None)])
@given(d=dialogues(rows=6))
def test_a_token_teaches_where_its_log_probability_has_a_gradient(
    objective: str, dual: float | None, d: Dialogues
) -> None:
    logprobs = (0.5 * d.numbers(3)).requires_grad_()
    advantages = d.numbers(2) * (d.numbers(4) > 0)  # about half of the tokens have none
    inputs = LossInputs(logprobs, d.numbers(1), advantages, d.mask)
    found = losses.policy_loss(inputs, **CLIPS, dual_clip=dual, objective=objective)
    found.loss.backward()
    assert logprobs.grad is not None
    assert found.tokens is not None
    assert found.tokens.teaches.tolist() == (logprobs.grad != 0).tolist()
    assert not (found.tokens.clipped & ~d.mask.bool()).any()
    if objective != "cispo":
        assert not (found.tokens.clipped & found.tokens.teaches).any()


def test_a_clipped_ratio_still_learns_back_towards_the_bound() -> None:
    logprobs = tokens(math.log(1.5), math.log(0.5)).requires_grad_()
    found = losses.policy_loss(LossInputs(logprobs, torch.zeros(1, 2), tokens(-1.0, 1.0), torch.ones(1, 2)), **CLIPS)
    found.loss.backward()
    assert logprobs.grad is not None
    assert (logprobs.grad != 0).all()
    assert float(found.metrics["policy/clip_fraction_low"] + found.metrics["policy/clip_fraction_high"]) == 0.0


def test_the_dual_clip_bounds_the_loss_of_a_likely_negative_token() -> None:
    logprobs = tokens(math.log(50.0)).requires_grad_()
    free = losses.policy_loss(LossInputs(logprobs, torch.zeros(1, 1), tokens(-2.0), torch.ones(1, 1)), **CLIPS)
    bound = losses.policy_loss(
        LossInputs(logprobs, torch.zeros(1, 1), tokens(-2.0), torch.ones(1, 1)), **CLIPS, dual_clip=3.0
    )
    bound.loss.backward()
    assert free.loss.item() == pytest.approx(100.0, rel=1e-5)
    assert bound.loss.item() == pytest.approx(6.0)
    assert float(bound.metrics["policy/clip_fraction_dual"]) == 1.0
    assert "policy/clip_fraction_dual" not in free.metrics
    assert logprobs.grad is not None
    assert not logprobs.grad.any()


def test_a_log_ratio_that_would_overflow_gives_a_finite_loss() -> None:
    logprobs = tokens(0.0, -500.0).requires_grad_()
    found = losses.policy_loss(LossInputs(logprobs, tokens(-500.0, 0.0), tokens(-1.0, 1.0), torch.ones(1, 2)), **CLIPS)
    found.loss.backward()
    assert found.loss.isfinite()
    assert logprobs.grad is not None
    assert logprobs.grad.isfinite().all()


def test_half_precision_log_probabilities_are_compared_in_single_precision() -> None:
    found = losses.policy_loss(
        LossInputs(tokens(-1.0).bfloat16(), tokens(-1.0), tokens(1.0), torch.ones(1, 1)), **CLIPS
    )
    assert found.loss.dtype == torch.float32


def test_every_aggregation_matches_a_hand_calculation() -> None:
    per_token = torch.tensor([[1.0, 3.0, 9.0], [6.0, 9.0, 9.0], [9.0, 9.0, 9.0]])
    mask = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 0, 0]])
    found = {how: float(losses.aggregate(per_token, mask, how)) for how in AGGREGATIONS}
    assert found == {
        "token-mean": pytest.approx(10 / 3),
        "seq-mean-token-sum": 5.0,
        "seq-mean-token-mean": 4.0,
        "seq-mean-token-sum-norm": pytest.approx(10 / 3),
    }


def test_the_critic_gets_no_gradient_from_a_clipped_prediction() -> None:
    """Both moved by 1, clip 0.5: the first moved towards its return and is held back, the second away from it."""
    values = tokens(1.0, -1.0).requires_grad_()
    found = losses.value_loss(ValueLossInputs(values, torch.zeros(1, 2), tokens(2.0, 2.0), torch.ones(1, 2)), clip=0.5)
    found.loss.backward()
    assert values.grad is not None
    assert values.grad.tolist() == [[0.0, -1.5]]
    assert found.loss.item() == pytest.approx(0.5 * (1.5**2 + 3.0**2) / 2)
    assert float(found.metrics["value/clip_fraction"]) == 0.5


def test_within_the_clip_the_critic_loss_is_squared_error() -> None:
    old = tokens(0.9, 5.4)
    found = losses.value_loss(ValueLossInputs(tokens(1.0, 5.0), old, tokens(2.0, 2.0), torch.ones(1, 2)))
    assert found.loss.item() == 2.5
    assert float(found.metrics["value/clip_fraction"]) == 0.0


def test_explained_variance_is_one_for_a_perfect_critic_and_zero_for_a_constant_one() -> None:
    returns, mask = tokens(1.0, 2.0, 3.0, 9.0), tokens(1, 1, 1, 0)
    assert losses.explained_variance(returns, returns, mask) == 1.0
    assert losses.explained_variance(returns, torch.full_like(returns, 2.0), mask) == pytest.approx(0.0)
    worse = losses.explained_variance(returns, -returns, mask)
    assert worse is not None
    assert worse < 0


def test_explained_variance_is_unknown_where_returns_do_not_vary() -> None:
    assert losses.explained_variance(tokens(2.0, 2.0), tokens(1.0, 3.0), torch.ones(1, 2)) is None
    assert losses.explained_variance(tokens(2.0, 4.0), tokens(1.0, 3.0), tokens(1, 0)) is None


def test_entropy_is_maximal_for_equal_logits_and_ignores_masked_tokens() -> None:
    assert float(entropy(torch.zeros(8))) == pytest.approx(math.log(8))
    ruled_out = torch.tensor([0.0, 0.0, -math.inf], requires_grad=True)
    found = entropy(ruled_out)
    found.backward()
    assert float(found.detach()) == pytest.approx(math.log(2))
    assert ruled_out.grad is not None
    assert ruled_out.grad.isfinite().all()


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_kl_estimates_agree_with_the_exact_divergence_of_close_policies(estimator: str) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(6, generator=generator)
    policy = torch.log_softmax(logits, 0)
    reference = torch.log_softmax(logits + 0.2 * torch.randn(6, generator=generator), 0)
    exact = float((policy.exp() * (policy - reference)).sum())
    expected = float((policy.exp() * losses.kl_penalty(policy, reference, estimator)).sum())
    assert expected == pytest.approx(exact, rel=1e-4 if estimator != "k2" else 0.2)


def test_k3_is_never_negative_and_never_overflows() -> None:
    logprobs = tokens(-1.0, 0.0, -300.0)
    found = losses.kl_penalty(logprobs, tokens(-1.0, -300.0, 0.0), "k3")
    assert found.tolist() == [[0.0, 10.0, 10.0]]


def smooth_inputs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Double precision, away from every kink: ratios well inside or outside the bounds."""
    generator = torch.Generator().manual_seed(3)
    old = -torch.rand(3, 5, generator=generator, dtype=torch.float64)
    shift = torch.tensor([[0.05, -0.1, 0.6, -0.7, 0.1]] * 3, dtype=torch.float64)
    advantages = torch.randn(3, 5, generator=generator, dtype=torch.float64)
    mask = torch.tensor([[1, 1, 1, 1, 1], [0, 1, 1, 0, 1], [1, 0, 0, 0, 0]])
    return old, (old + shift).requires_grad_(), advantages, mask


@pytest.mark.parametrize("how", AGGREGATIONS)
def test_gradients_are_correct_where_losses_are_smooth(how: str) -> None:
    old, new, advantages, mask = smooth_inputs()
    assert torch.autograd.gradcheck(
        lambda x: (
            losses.policy_loss(LossInputs(x, old, advantages, mask), **CLIPS, dual_clip=3.0, aggregation=how).loss
        ),
        (new,),
    )
    assert torch.autograd.gradcheck(
        lambda x: losses.value_loss(ValueLossInputs(x, old, advantages, mask), clip=0.3, aggregation=how).loss, (new,)
    )
    logits = torch.randn(2, 3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(4), requires_grad=True)
    assert torch.autograd.gradcheck(entropy, (logits,))
    for estimator in ("k1", "k2", "k3"):
        assert torch.autograd.gradcheck(lambda x, e=estimator: losses.kl_penalty(x, old, e), (new,))
