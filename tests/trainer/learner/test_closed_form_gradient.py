"""StarPO's gradient on a one-turn bandit with a tabular policy, against the closed form.

The policy is a softmax over two logits, so J(θ) = Σ p(a) r(a) and ∂J/∂θ_a = p(a) (r(a) − J). Everything else is the
product's own: the environment's draws, the batch, the estimators, the loss.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor

import envs
from trainer.algorithms.losses import LossInputs, policy_loss
from trainer.config.run import AlgorithmConfig
from trainer.learner.advantage_estimation import estimate_advantages
from trainer.rollout.trajectory import Batch

GROUPS, SIZE = 3000, 4
LOGITS = torch.tensor([0.4, -0.3])
ARMS = ("Phoenix", "Dragon")
PAYS = torch.tensor([0.15, 0.25])  # expected reward of each arm


@cache
def played(seed: int) -> tuple[Tensor, Tensor]:
    """(G·N,) arms pulled by the tabular policy and (G·N,) rewards of the environment."""
    draw = np.random.default_rng(seed)
    arms = draw.choice(2, size=GROUPS * SIZE, p=torch.softmax(LOGITS.double(), 0).numpy())
    env, paid = envs.make("Bandit"), []
    for row, arm in enumerate(arms):
        env.reset(seed=row // SIZE, options={"dynamics_seed": seed * 1_000_000 + row})
        paid.append(env.step(ARMS[arm])[1])
    return torch.tensor(arms), torch.tensor(paid)


def batch_of(paid: Tensor) -> Batch:
    """One sampled token a trajectory: the arm."""
    rows = len(paid)
    return Batch(
        ids=torch.zeros(rows, 1, dtype=torch.long),
        attention=torch.ones(rows, 1, dtype=torch.bool),
        mask=torch.ones(rows, 1, dtype=torch.bool),
        sampler_logprobs=torch.zeros(rows, 1),
        rewards=paid[:, None],
        turn_of=torch.zeros(rows, 1, dtype=torch.long),
        group=torch.arange(rows) // SIZE,
        environment=torch.zeros(rows, dtype=torch.long),
        weight=torch.ones(rows),
        anchors=torch.zeros(rows, 1, dtype=torch.long),
        total_rewards=paid,
        trajectory=torch.arange(rows),
        tokens=torch.ones(rows, dtype=torch.long),
    )


@pytest.mark.parametrize(
    ("settings", "factor"),
    [
        ({"estimator": "rloo"}, 1.0),
        # the group's mean includes the trajectory's own reward, which reduces the gradient by 1/N
        ({"estimator": "grpo", "normalize_by_std": False}, 1 - 1 / SIZE),
        ({"estimator": "gae"}, None),
        ({"estimator": "bi_level_gae"}, None),
        # from one state of one turn the anchor part repeats the trajectory part
        ({"estimator": "gigpo", "normalize_by_std": False}, 2 * (1 - 1 / SIZE)),
        ({"estimator": "mt_grpo", "normalize_by_std": False}, 1 - 1 / SIZE),
        ({"estimator": "turn_gae"}, None),
        ({"estimator": "rloo", "reward_normalization": "batch_mean"}, 1.0),
    ],
)
@pytest.mark.parametrize("dual_clip", [None, 3.0])
def test_the_expected_gradient_is_the_closed_form(
    settings: dict[str, object], factor: float | None, dual_clip: float | None
) -> None:
    """Without a factor the advantages are whitened, and so divided by the standard deviation of the rewards."""
    probabilities = torch.softmax(LOGITS, 0)
    objective = float((probabilities * PAYS).sum())

    arms, paid = played(seed=1)
    wanted = (factor or 1 / float(paid.std())) * probabilities * (PAYS - objective)
    batch = batch_of(paid)
    values = torch.full((len(paid), 1), 0.2)  # a critic's constant guess: a baseline changes nothing in expectation
    algorithm = AlgorithmConfig.model_validate(settings)
    found = estimate_advantages(batch, batch.rewards, values, algorithm).advantages

    def gradient(rows: slice) -> Tensor:
        logits = LOGITS.clone().requires_grad_()
        logprobs = torch.log_softmax(logits, 0)[arms[rows]][:, None]
        result = policy_loss(
            LossInputs(logprobs, logprobs.detach(), found[rows], batch.mask[rows]),
            clip_low=0.2,
            clip_high=0.28,
            dual_clip=dual_clip,
            aggregation="seq-mean-token-mean",
        )
        result.loss.backward()  # type: ignore[no-untyped-call]
        assert logits.grad is not None
        return -logits.grad

    parts = 100
    size = len(paid) // parts
    gradients = torch.stack([gradient(slice(at * size, (at + 1) * size)) for at in range(parts)]).double()
    error = gradients.std(dim=0) / parts**0.5
    assert error.max() < 0.01, "the estimate is too rough to say anything"
    assert ((gradients.mean(dim=0) - wanted).abs() < 4 * error).all(), (gradients.mean(dim=0), wanted, error)
