"""Gradients of the loss terms: correct, and without effect on the update."""

from __future__ import annotations

import math

import pytest
import torch

from tests.trainer.learner.test_learner import batch_of, learner_for, weights
from trainer.config.run import PolicyConfig
from trainer.learner import gradient_diagnostics
from trainer.policy.load import load


def test_gradient_norms_and_cosines_match_known_gradients() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = torch.tensor([3.0], requires_grad=True)
    terms = {"task": 3 * x[0] + 4 * x[1], "entropy": -2 * x[0], "kl": y.sum()}
    found = gradient_diagnostics.gradient_terms([terms], [x, y])
    assert found == {
        "gradient/task": pytest.approx(5.0),
        "gradient/entropy": pytest.approx(2.0),
        "gradient/kl": pytest.approx(1.0),
        "gradient/cosine_task_entropy": pytest.approx(-0.6),
        "gradient/cosine_task_kl": 0.0,
        "gradient/cosine_entropy_kl": 0.0,
    }
    assert x.grad is None
    assert y.grad is None


def test_micro_batches_are_accumulated_before_measuring() -> None:
    x = torch.tensor([1.0], requires_grad=True)
    found = gradient_diagnostics.gradient_terms([{"task": x.sum()}, {"task": -x.sum()}], [x])
    assert found == {"gradient/task": 0.0}


def test_a_term_without_a_gradient_has_no_direction() -> None:
    x = torch.tensor([1.0], requires_grad=True)
    found = gradient_diagnostics.gradient_terms(
        [{"task": x.sum(), "entropy": 0 * x.sum(), "kl": torch.tensor(2.0)}], [x]
    )
    assert found == {"gradient/task": 1.0, "gradient/entropy": 0.0, "gradient/kl": 0.0}


SETTINGS = {
    "algorithm": {
        "estimator": "gae",
        "kl_coef": 0.5,
        "kl_penalty": "loss_k1",
        "entropy_coef": 0.1,
        "updates_per_rollout": 2,
    },
    "optimizer": {"mini_batch_trajectories": 3, "policy_lr": 1e-3, "micro_batch_tokens": 64},
}


def updated(folder, every, **sections):
    """A learner after three iterations, and its diagnostics of each."""
    settings = {name: value | sections.get(name, {}) for name, value in SETTINGS.items()}
    learner = learner_for(
        folder, reference=load(folder, PolicyConfig()), diagnostics={"gradient_terms_every": every}, **settings
    )
    batch = batch_of(learner, [1, 0, 0.5, 0, 0, 1])
    return learner, [learner.update(batch, iteration) for iteration in (1, 2, 3)]


def of_terms(values):
    return {name for name in values if name.startswith("gradient/")}


def test_diagnostics_change_neither_weights_nor_metrics(pocket_folder) -> None:
    (measured, with_split), (plain, without) = updated(pocket_folder, 1), updated(pocket_folder, 0)
    assert torch.equal(weights(measured), weights(plain))
    for one, other in zip(with_split, without, strict=True):
        assert {name: value for name, value in one.items() if name not in of_terms(one)} == other
        assert of_terms(one) == {
            "gradient/" + name
            for name in ("task", "entropy", "kl", "cosine_task_entropy", "cosine_task_kl", "cosine_entropy_kl")
        }


def test_diagnostics_follow_their_interval_and_skip_critic_warmup(pocket_folder) -> None:
    _, values = updated(pocket_folder, 2)
    assert [bool(of_terms(one)) for one in values] == [False, True, False]
    _, values = updated(pocket_folder, 1, optimizer={"critic_warmup": 2})
    assert [bool(of_terms(one)) for one in values] == [False, False, True]


def test_the_terms_add_up_to_the_gradient_of_the_update(pocket_folder) -> None:
    _, values = updated(
        pocket_folder, 1, algorithm={"updates_per_rollout": 1}, optimizer={"mini_batch_trajectories": 6}
    )
    got = values[1]
    task, entropy, kl = (got[f"gradient/{name}"] for name in ("task", "entropy", "kl"))
    pairs = (
        task * entropy * got["gradient/cosine_task_entropy"]
        + task * kl * got["gradient/cosine_task_kl"]
        + entropy * kl * got["gradient/cosine_entropy_kl"]
    )
    whole = math.sqrt(task**2 + entropy**2 + kl**2 + 2 * pairs)
    assert whole == pytest.approx(got["policy/grad_norm"], rel=1e-3)


def test_without_a_kl_loss_there_is_no_kl_term(pocket_folder) -> None:
    _, values = updated(pocket_folder, 1, algorithm={"kl_penalty": "reward_k1"})
    assert of_terms(values[0]) == {"gradient/task", "gradient/entropy", "gradient/cosine_task_entropy"}
