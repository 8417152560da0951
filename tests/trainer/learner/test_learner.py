"""Updates: rewarded tokens become likelier; micro-batches and non-finite gradients change nothing."""

import math
from itertools import cycle

import pytest
import torch

from tests.trainer import tiny
from tests.trainer.rollout.test_trajectory import turn
from tests.trainer.steps import variants
from trainer.algorithms.estimators import ESTIMATORS
from trainer.algorithms.losses import kl_penalty
from trainer.config.run import PolicyConfig
from trainer.learner.learner import Learner
from trainer.policy.load import load
from trainer.rollout.trajectory import Trajectory, collate


def played(rewards, group_size=3, seed=0):
    """Trajectories of two turns with random tokens, the given R(τ), without sampler values."""
    draw = torch.Generator().manual_seed(seed)

    def ids(count):
        return torch.randint(10, 300, (count,), generator=draw).tolist()

    found = []
    for index, reward in enumerate(rewards):
        one = Trajectory(id=str(index), group=index // group_size, member=index % group_size)
        for number in range(2):
            one.append_prompt(ids(4 + index))
            written = ids(3 + (index * 2 + number) % 4)
            one.append_response(written, [0.0] * len(written), [0.0] * len(written), number)
            one.turns.append(turn(number, reward if number else 0.0, len(written)))
        found.append(one)
    return found


def batch_of(learner, rewards, **more):
    """A batch as sampled by the current policy."""
    batch = collate(played(rewards, **more), pad_id=0)
    batch.sampler_logprobs = learner.score(batch).logprobs
    return batch


def learner_for(folder, policy=None, reference=None, **sections):
    config = tiny.config(folder, **sections)
    return Learner(config, policy or load(folder, PolicyConfig()), reference)


def weights(learner):
    return torch.cat([p.detach().flatten().clone() for p in learner.policy.model.parameters()])


def mean_logprob(learner, batch, rows):
    chosen = batch.mask[rows]
    return float(learner.score(batch).logprobs[rows][chosen].mean())


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("model", ["pocket", "llama"])
def test_one_update_makes_rewarded_tokens_likelier_and_the_others_less_so(
    pocket_folder, llama_folder, estimator, model
):
    folder = {"pocket": pocket_folder, "llama": llama_folder}[model]
    learner = learner_for(
        folder, algorithm={"estimator": estimator}, optimizer={"mini_batch_trajectories": 6, "policy_lr": 1e-3}
    )
    batch = batch_of(learner, [1, 0, 0, 0, 0, 1])
    good, bad = torch.tensor([0, 5]), torch.tensor([1, 2, 3, 4])
    before = mean_logprob(learner, batch, good), mean_logprob(learner, batch, bad)
    values = learner.update(batch, 1)
    after = mean_logprob(learner, batch, good), mean_logprob(learner, batch, bad)
    assert after[0] > before[0]
    assert after[1] < before[1]
    assert all(math.isfinite(value) for value in values.values())
    assert values["policy/grad_norm"] > 0
    assert values["update/steps"] == 1
    assert values["mismatch/k3"] == pytest.approx(0, abs=1e-9)
    assert ("value/loss" in values) == ESTIMATORS[estimator].needs_critic


AVERAGES = ["token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"]


@pytest.mark.parametrize(("estimator", "aggregation"), list(zip(ESTIMATORS, cycle(AVERAGES), strict=False)))
def test_micro_batches_do_not_change_the_step(pocket_folder, estimator, aggregation):
    results = []
    for tokens in (64, 100_000):
        learner = learner_for(
            pocket_folder,
            algorithm={"estimator": estimator, "aggregation": aggregation},
            optimizer={"mini_batch_trajectories": 6, "micro_batch_tokens": tokens, "max_grad_norm": 1e6},
        )
        # Adam's first step is the sign of the gradient: where that is all but zero, the last bit of a sum would decide.
        learner.trainable["policy"].optimizer = torch.optim.SGD(learner.policy.model.parameters(), lr=0.1)
        if learner.critic:
            learner.trainable["critic"].optimizer = torch.optim.SGD(learner.critic.parameters(), lr=0.1)
        batch = batch_of(learner, [1, 0, 0.5, 0, 2, 1])
        assert len(list(learner.micro_batches(batch))) == (1 if tokens > 64 else 3)
        before, metrics = weights(learner), learner.update(batch, 1)
        critic = learner.critic.head.weight.detach().clone() if learner.critic else torch.zeros(1)
        results.append((weights(learner), critic, metrics))
        assert (weights(learner) - before).abs().max() > 1e-4
    (small, small_critic, small_metrics), (whole, whole_critic, whole_metrics) = results
    assert torch.allclose(small, whole, rtol=0, atol=1e-6)
    assert torch.allclose(small_critic, whole_critic, rtol=0, atol=1e-6)
    assert small_metrics == pytest.approx(whole_metrics, rel=1e-4, abs=1e-6)


def test_micro_batches_hold_every_row_once_within_their_size(pocket_folder):
    learner = learner_for(pocket_folder)
    batch = batch_of(learner, [0.0] * 9)
    pieces = list(learner.micro_batches(batch))
    assert sorted(row for rows, *_ in pieces for row in rows.tolist()) == list(range(9))
    small = learner_for(pocket_folder, optimizer={"micro_batch_tokens": 64})
    for rows, piece, _ in small.micro_batches(batch):
        assert piece.ids.numel() <= 64 or len(rows) == 1


def test_equal_rewards_leave_the_policy_unchanged(pocket_folder):
    learner = learner_for(pocket_folder, algorithm={"entropy_coef": 0.0})
    batch = batch_of(learner, [1, 1, 1, 2, 2, 2])
    before = weights(learner)
    learner.update(batch, 1)
    assert torch.equal(weights(learner), before)


def test_the_entropy_bonus_raises_the_entropy(pocket_folder):
    learner = learner_for(pocket_folder, algorithm={"entropy_coef": 0.5}, optimizer={"policy_lr": 1e-3})
    batch = batch_of(learner, [1, 1, 1, 2, 2, 2])
    before = learner.score(batch).entropies[batch.mask].mean()
    for iteration in range(3):
        learner.update(batch, iteration + 1)
    assert learner.score(batch).entropies[batch.mask].mean() > before


def away_from_reference(folder, **algorithm):
    """A learner whose policy is not its reference, and a batch in which every reward is the same."""
    learner = learner_for(
        folder,
        policy=load(tiny_variant(folder), PolicyConfig()),
        reference=load(folder, PolicyConfig()),
        rollout={"group_size": 6},
        algorithm={"entropy_coef": 0.0} | algorithm,
        optimizer={"policy_lr": 3e-4, "mini_batch_trajectories": 6},
    )
    batch = batch_of(learner, [0.0] * 6, group_size=6)
    return learner, batch, learner.score(batch, learner.reference).logprobs


def test_a_kl_loss_pulls_the_policy_to_the_reference(pocket_folder):
    learner, batch, initial = away_from_reference(pocket_folder, kl_coef=1.0, kl_penalty="loss_k3")
    distances = []
    for iteration in range(4):
        batch.sampler_logprobs = learner.score(batch).logprobs
        distances.append(learner.update(batch, iteration + 1)["policy/kl_to_initial"])
    assert distances == sorted(distances, reverse=True)
    expected = kl_penalty(batch.sampler_logprobs, initial, "k3")[batch.mask].mean()
    assert distances[-1] == pytest.approx(float(expected), rel=1e-5)


def test_a_kl_penalty_discourages_tokens_unlikely_under_the_reference(pocket_folder):
    learner, batch, initial = away_from_reference(pocket_folder, kl_coef=1.0, kl_penalty="reward_k1")
    away = (batch.sampler_logprobs - initial).sum(1)
    learner.update(batch, 1)
    change = (learner.score(batch).logprobs - batch.sampler_logprobs).sum(1) / batch.mask.sum(1)
    assert change[away.argmax()] < 0 < change[away.argmin()]


def test_without_a_penalty_the_kl_is_measured_without_effect(pocket_folder):
    learner, batch, initial = away_from_reference(pocket_folder)
    before = weights(learner)
    values = learner.update(batch, 1)
    expected = kl_penalty(batch.sampler_logprobs, initial, "k3")[batch.mask].mean()
    assert values["policy/kl_to_initial"] == pytest.approx(float(expected), rel=1e-5)
    assert torch.equal(weights(learner), before)


def tiny_variant(folder):
    """The same tokenizer with other random weights, beside the given folder."""
    other = folder.parent / f"{folder.name}-other"
    if not other.exists():
        tiny.save_pocket(other, seed=1)
    return other


def test_the_reference_is_unchanged(pocket_folder):
    reference = load(pocket_folder, PolicyConfig())
    before = [p.detach().clone() for p in reference.model.parameters()]
    learner = learner_for(pocket_folder, reference=reference, algorithm={"kl_coef": 0.1})
    learner.update(batch_of(learner, [1, 0, 0, 0, 1, 0]), 1)
    assert all(torch.equal(a, b) for a, b in zip(before, reference.model.parameters(), strict=True))


def test_the_critic_learns_the_returns(pocket_folder):
    learner = learner_for(
        pocket_folder,
        algorithm={"estimator": "gae"},
        optimizer={"critic_lr": 1e-3, "critic_warmup": 40, "mini_batch_trajectories": 6},
    )
    batch = batch_of(learner, [1, 0, 2, 0, 3, -1])
    before = weights(learner)
    first = learner.update(batch, 1)
    for iteration in range(2, 31):
        last = learner.update(batch, iteration)
    assert last["value/loss"] < 0.3 * first["value/loss"]
    assert last["value/explained_variance"] > 0.5
    assert torch.equal(weights(learner), before), "while the critic warms up, the policy waits"
    assert "policy/loss" not in last


def test_the_critic_starts_at_zero_and_is_causal(pocket_folder):
    learner = learner_for(pocket_folder, algorithm={"estimator": "gae"})
    batch = batch_of(learner, [1, 0, 0])
    assert not learner.values(batch).any()
    torch.nn.init.normal_(learner.critic.head.weight)
    values = learner.values(batch)
    column = batch.ids.shape[1] // 2
    batch.ids[:, column:] = 7
    assert torch.allclose(learner.values(batch)[:, 1 : column + 1], values[:, 1 : column + 1], atol=1e-5)
    assert not torch.allclose(learner.values(batch)[:, column + 1 :], values[:, column + 1 :], atol=1e-5)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_non_finite_gradient_is_discarded_and_counted(pocket_folder, estimator):
    learner = learner_for(pocket_folder, algorithm={"estimator": estimator}, optimizer={"mini_batch_trajectories": 6})
    batch = batch_of(learner, [1, 0, 0, 0, 1, 0])
    before = weights(learner)
    parameter = next(learner.policy.model.parameters())
    broken = parameter.register_hook(lambda gradient: torch.full_like(gradient, float("inf")))
    values = learner.update(batch, 1)
    broken.remove()
    assert values["update/skipped"] == 1
    assert torch.equal(weights(learner), before)
    assert all(math.isfinite(value) for value in values.values())
    healthy = learner.update(batch, 2)
    assert "update/skipped" not in healthy
    assert not torch.equal(weights(learner), before)


def test_each_update_takes_the_configured_number_of_steps(pocket_folder):
    learner = learner_for(pocket_folder, algorithm={"updates_per_rollout": 3}, optimizer={"mini_batch_trajectories": 4})
    values = learner.update(batch_of(learner, [1, 0, 0, 0, 1, 0]), 1)
    assert values["update/steps"] == 3 * 2


def test_updates_are_reproducible(pocket_folder):
    def run():
        learner = learner_for(pocket_folder, algorithm={"estimator": "gae"})
        metrics = learner.update(batch_of(learner, [1, 0, 0, 0, 1, 0]), 5)
        return weights(learner), metrics

    (one, metrics), (other, again) = run(), run()
    assert torch.equal(one, other)
    assert metrics == again


def test_a_learner_restored_from_state_continues_identically(pocket_folder, tmp_path):
    learner = learner_for(pocket_folder, algorithm={"estimator": "gae"})
    batch = batch_of(learner, [1, 0, 0, 0, 1, 0])
    learner.update(batch, 1)
    torch.save(learner.state(), tmp_path / "state.pt")
    other = learner_for(pocket_folder, algorithm={"estimator": "gae"})
    other.policy.model.load_state_dict(learner.policy.model.state_dict())
    other.load_state(torch.load(tmp_path / "state.pt", weights_only=True))
    assert learner.update(batch, 2) == other.update(batch, 2)
    assert torch.equal(weights(learner), weights(other))


def test_large_cross_scores_are_computed_in_passes_of_limited_size(pocket_folder, monkeypatch):
    with variants("separate"):
        learner = learner_for(pocket_folder, optimizer={"micro_batch_tokens": 64})
    prompts, thoughts = [[11 + n] * (20 + n) for n in range(5)], [[41, 42 + n] for n in range(5)]
    shapes, forward = [], type(learner.policy.model.base_model).forward

    def counted(self, input_ids=None, **extra):
        shapes.append(tuple(input_ids.shape))
        return forward(self, input_ids=input_ids, **extra)

    monkeypatch.setattr(type(learner.policy.model.base_model), "forward", counted)
    limited = learner.cross_scores(prompts, thoughts)
    assert all(rows * width <= 64 for rows, width in shapes)
    assert sum(rows for rows, _ in shapes) == 25
    learner.config.optimizer.micro_batch_tokens = 16_384
    shapes.clear()
    assert torch.allclose(learner.cross_scores(prompts, thoughts), limited, atol=1e-4)
    assert [rows for rows, _ in shapes] == [5] * 5


def test_thoughts_scored_alone_match_their_scores_in_the_dialogue(pocket_folder):
    learner = learner_for(pocket_folder)
    prompts, thoughts = [[11, 12, 13], [21, 22], [31, 32, 33, 34]], [[41, 42], [51, 52, 53], [61]]
    scores = learner.cross_scores(prompts, thoughts)
    for i, thought in enumerate(thoughts):
        for j, prompt in enumerate(prompts):
            one = Trajectory(id="t", group=0, member=0)
            one.append_prompt(prompt)
            one.append_response(thought, [0.0] * len(thought), [0.0] * len(thought), 0)
            one.turns.append(turn(0, 0.0, len(thought)))
            batch = collate([one], pad_id=0)
            assert float(scores[i, j]) == pytest.approx(float(learner.score(batch).logprobs.sum()), abs=1e-4)
