"""Several updates from one rollout (Online-k), and rollouts whose sampler deviates from the trainer."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer import tiny
from tests.trainer.learner.test_learner import batch_of, learner_for, weights
from tests.trainer.loops.test_train import events, run
from tests.trainer.random_batches import dialogues
from trainer.algorithms.losses import truncated_weights
from trainer.config.run import RunConfig
from trainer.journal.events import Metrics
from trainer.metrics.registry import get_spec

REWARDS = [1, 0, 0.5, 0, 2, 1]


def plain(folder, *, rate=1.0, **algorithm):
    """A learner whose step is its gradient times the rate."""
    learner = learner_for(
        folder,
        algorithm={"entropy_coef": 0.0} | algorithm,
        optimizer={"mini_batch_trajectories": 6, "max_grad_norm": 1e6},
    )
    learner.trainable["policy"].optimizer = torch.optim.SGD(learner.policy.model.parameters(), lr=rate)
    return learner


@pytest.mark.parametrize("reuse", [1, 2, 5])
def test_online_k_takes_k_times_the_steps_at_the_same_batch_size(pocket_folder, reuse):
    learner = learner_for(
        pocket_folder, algorithm={"updates_per_rollout": reuse}, optimizer={"mini_batch_trajectories": 2}
    )
    sizes = []
    step = learner._step
    learner._step = lambda plan, *rest, **more: (sizes.append(len(plan.batch)), step(plan, *rest, **more))[1]
    values = learner.update(batch_of(learner, REWARDS), 1)
    assert values["update/steps"] == 3 * reuse
    assert sizes == [2] * 3 * reuse


def test_each_pass_sees_every_trajectory_once_in_a_new_order(pocket_folder):
    learner = learner_for(pocket_folder, algorithm={"updates_per_rollout": 3}, optimizer={"mini_batch_trajectories": 2})
    seen = []
    step = learner._step
    learner._step = lambda plan, *rest, **more: (
        seen.extend(plan.batch.trajectory.tolist()),
        step(plan, *rest, **more),
    )[1]
    learner.update(batch_of(learner, REWARDS), 1)
    passes = [seen[start : start + 6] for start in range(0, 18, 6)]
    assert all(sorted(rows) == list(range(6)) for rows in passes)
    assert len({tuple(rows) for rows in passes}) > 1


def test_later_passes_use_ratios_to_the_rollout_policy(pocket_folder):
    """Two passes are two updates from one and the same rollout, not two rollouts: the clip holds across both."""
    rate = 30.0
    together = plain(pocket_folder, rate=rate, updates_per_rollout=2)
    metrics = together.update(batch_of(together, REWARDS), 1)
    one_by_one = plain(pocket_folder, rate=rate)
    batch = batch_of(one_by_one, REWARDS)
    first, second = one_by_one.update(batch, 1), one_by_one.update(batch, 1)
    assert torch.allclose(weights(together), weights(one_by_one), rtol=0, atol=1e-5)
    assert first["policy/kl_to_rollout"] == pytest.approx(0, abs=1e-9)
    assert second["policy/kl_to_rollout"] > 1e-4
    assert metrics["policy/kl_to_rollout"] == pytest.approx(second["policy/kl_to_rollout"] / 2, rel=1e-3)
    assert metrics["mismatch/k3"] == pytest.approx(0, abs=1e-9), "measured before the policy moves"

    refreshed = plain(pocket_folder, rate=rate)
    batch = batch_of(refreshed, REWARDS)
    refreshed.update(batch, 1)
    batch.sampler_logprobs = refreshed.score(batch).logprobs
    refreshed.update(batch, 1)
    assert (weights(refreshed) - weights(together)).abs().max() > 1e-4


def test_a_run_of_online_2_samples_once_and_steps_twice(pocket_folder, tmp_path):
    recorded = {}
    for reuse in (1, 2):
        config = tiny.config(
            pocket_folder, iterations=1, algorithm={"estimator": "reinforce_plus_plus", "updates_per_rollout": reuse}
        )
        run(config, tmp_path / str(reuse))
        found = events(tmp_path / str(reuse), Metrics)
        recorded[reuse] = next(event for event in found if "update/steps" in event.values)
    assert recorded[2].tokens == recorded[1].tokens
    assert (recorded[1].values["update/steps"], recorded[2].values["update/steps"]) == (2, 4)


@given(dialogues(), st.floats(1, 5))
def test_importance_weights_are_the_ratio_up_to_the_cap(d, cap):
    own, sampler = d.rubbish(d.numbers(1), math.nan), d.rubbish(d.numbers(2), math.inf)
    found = truncated_weights(own.requires_grad_(), sampler, d.mask, cap)
    assert not found.requires_grad
    ratio = (d.numbers(1) - d.numbers(2)).exp()
    assert torch.allclose(found[d.mask], torch.minimum(ratio, torch.tensor(cap))[d.mask])
    assert not found[~d.mask].any()


def test_importance_weights_are_one_for_a_perfect_sampler_and_always_bounded():
    mask = torch.tensor([[True, True]])
    own = torch.tensor([[-1.5, -1000.0]])
    assert truncated_weights(own, own, mask, 2.0).tolist() == [[1, 1]]
    assert truncated_weights(own, torch.tensor([[-1000.0, -1.5]]), mask, 2.0).tolist() == [
        [2, pytest.approx(0, abs=1e-8)]
    ]


@pytest.mark.parametrize("estimator", ["grpo", "gae"])
def test_a_sampler_that_agrees_needs_no_correction(pocket_folder, estimator):
    results = []
    for cap in (None, 2.0):
        learner = plain(pocket_folder, estimator=estimator, tis_cap=cap)
        metrics = learner.update(batch_of(learner, REWARDS), 1)
        results.append(weights(learner))
        assert ("mismatch/clipped_fraction" in metrics) == (cap is not None)
    assert torch.allclose(*results, rtol=0, atol=1e-6)


@pytest.mark.parametrize("cap, factor, capped", [(5.0, 2.0, 0.0), (1.5, 1.5, 1.0)])
def test_undersampled_tokens_are_upweighted_up_to_the_cap(pocket_folder, cap, factor, capped):
    steps = []
    for shift, setting in ((0.0, None), (math.log(2), cap)):
        learner = plain(pocket_folder, tis_cap=setting)
        batch = batch_of(learner, REWARDS)
        batch.sampler_logprobs = torch.where(batch.mask, batch.sampler_logprobs - shift, batch.sampler_logprobs)
        before = weights(learner)
        metrics = learner.update(batch, 1)
        steps.append(weights(learner) - before)
    assert torch.allclose(steps[1], factor * steps[0], rtol=1e-3, atol=1e-6)
    assert metrics["mismatch/clipped_fraction"] == capped
    assert metrics["mismatch/chi2"] == pytest.approx(3, rel=1e-3), "the mismatch itself is logged uncapped"
    assert metrics["policy/clip_fraction_high"] == 0, "the ratio is the trainer's to itself"
    assert get_spec("mismatch/clipped_fraction").unit == "share"


def test_correction_is_off_by_default():
    assert RunConfig().algorithm.tis_cap is None
