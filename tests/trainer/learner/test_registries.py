"""An estimator, a group filter, a loss aggregation and a reward term are each one function and one registry line."""

from pathlib import Path

import pytest
import torch

import trainer
from tests.trainer.learner.test_learner import learner_for, played, weights
from trainer.algorithms import advantages, thought_rewards
from trainer.algorithms.aggregations import AGGREGATIONS, token_mean
from trainer.algorithms.estimators import ESTIMATORS, AdvantageEstimate, Estimator
from trainer.algorithms.group_filter import FILTERS, GroupFilter
from trainer.algorithms.kl_estimators import KL_ESTIMATORS, KL_PENALTIES
from trainer.config.run import AlgorithmConfig
from trainer.learner.batch_selection import select_batch
from trainer.rollout.trajectory import collate

SETTINGS = {
    "estimator": ESTIMATORS,
    "group_filter": FILTERS,
    "aggregation": AGGREGATIONS,
    "kl_penalty": KL_PENALTIES,
}


@pytest.mark.parametrize("name", SETTINGS)
def test_the_setting_and_its_documentation_offer_exactly_the_registry(name):
    schema = AlgorithmConfig.model_json_schema()["properties"][name]
    assert schema["enum"] == list(SETTINGS[name])
    documentation = (Path(trainer.__file__).parents[1] / "docs" / "settings.md").read_text(encoding="utf-8")
    (row,) = [line for line in documentation.splitlines() if line.startswith(f"| `{name}` | `{schema['default']}`")]
    assert ", ".join(f"`{choice}`" for choice in SETTINGS[name]) in row
    with pytest.raises(ValueError, match=name):
        AlgorithmConfig.model_validate({name: "toy"})


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_of_the_registry_can_be_resolved(name):
    batch = collate(played([1, 0]), pad_id=0)
    needs = ESTIMATORS[name].needs_critic
    inputs = advantages.EstimatorInputs(
        rewards=batch.rewards,
        values=torch.zeros(batch.mask.shape) if needs else None,
        mask=batch.mask,
        turns=batch.turn_of,
        group=batch.group,
        anchors=batch.anchors,
    )
    estimate = ESTIMATORS[name].estimate(inputs, AlgorithmConfig())
    assert estimate.advantages.shape == batch.mask.shape
    assert (estimate.returns is not None) == needs


def with_algorithm(folder, **changes):
    """A learner whose settings name registry entries that no configuration file can name."""
    optimizer = {"mini_batch_trajectories": 6, "name": "sgd"}
    learner = learner_for(folder, algorithm={"entropy_coef": 0.0}, optimizer=optimizer)
    learner.config.algorithm = learner.config.algorithm.model_copy(update=changes)
    return learner


def stepped(learner, trajectories, factors=None):
    """The change of the weights in one update."""
    batch = collate(trajectories, pad_id=0, weights=factors)
    batch.sampler_logprobs = learner.score(batch).logprobs
    before = weights(learner)
    metrics = learner.update(batch, 1)
    assert metrics["update/steps"] == 1
    return weights(learner) - before, metrics


def test_a_new_estimator_is_used_by_the_update(pocket_folder, monkeypatch):
    def reward_itself(inputs, settings):
        return AdvantageEstimate(advantages.spread(inputs.rewards.sum(1), inputs.mask))

    monkeypatch.setitem(ESTIMATORS, "toy", Estimator(reward_itself))
    learner = with_algorithm(pocket_folder, estimator="toy")
    change, _ = stepped(learner, played([1, 0, 0, 0, 0, 2]))
    assert change.abs().max() > 0
    assert learner.learnt.advantages.sum(1).count_nonzero() == 2
    assert learner.learnt.advantages[5].max() == 2


def test_a_new_aggregation_is_used_by_the_update(pocket_folder, monkeypatch):
    def doubled(losses):
        return 2 * token_mean(losses)

    monkeypatch.setitem(AGGREGATIONS, "toy", doubled)
    norms = [
        stepped(with_algorithm(pocket_folder, aggregation=name), played([1, 0, 0, 0, 0, 2]))[1]["policy/grad_norm"]
        for name in ("toy", "token-mean")
    ]
    assert norms[0] == pytest.approx(2 * norms[1], rel=1e-5)


def test_a_new_kl_estimator_is_used_by_the_update(pocket_folder, monkeypatch):
    monkeypatch.setitem(KL_ESTIMATORS, "toy", lambda log_ratio: 0 * log_ratio + 1)
    changes = {"kl_coef": 1.0, "kl_penalty": "reward_toy", "estimator": "rloo"}
    learner = with_algorithm(pocket_folder, **changes)
    learner.scorer.algorithm = learner.config.algorithm
    learner.scorer.reference = learner.policy
    trajectories = played([0, 0, 0, 0, 0, 0])
    stepped(learner, trajectories)
    counts = torch.tensor([float(one.tokens) for one in trajectories])
    baseline = (counts.view(2, 3).sum(1, keepdim=True) - counts.view(2, 3)) / 2
    expected = (baseline - counts.view(2, 3)).flatten()
    assert learner.learnt.advantages.amax(1) + learner.learnt.advantages.amin(1) == pytest.approx(expected, abs=1e-4)


def test_a_new_filter_selects_and_weights_groups_of_the_update(pocket_folder, monkeypatch):
    monkeypatch.setitem(
        FILTERS,
        "toy",
        GroupFilter(lambda candidates: candidates.numbers[-1:], weights=lambda groups: [0.5] * len(groups)),
    )
    learner = with_algorithm(pocket_folder, group_filter="toy", group_filter_keep=0.1)
    choice = select_batch(played([1, 0, 0, 0, 0, 2]), learner.config.algorithm)
    assert [score.kept for score in choice.scores] == [False, True]
    assert choice.weights == [0.5] * 3
    change, _ = stepped(learner, choice.kept, choice.weights)
    assert change.abs().max() > 0
    unweighted = with_algorithm(pocket_folder)
    stepped(unweighted, choice.kept)
    assert torch.allclose(2 * learner.learnt.advantages, unweighted.learnt.advantages)


def test_a_new_reward_term_is_scored_by_name(monkeypatch):
    monkeypatch.setitem(thought_rewards.BUILT_IN_TERMS, "toy", lambda turn: float(len(turn.thought)))
    assert "toy" in thought_rewards.term_names()
    turn = thought_rewards.TurnContext(thought="four", earlier_thoughts=(), actions=(), action_names=(), board=None)
    assert thought_rewards.score({"toy": 0.5}, turn) == {"toy": 2.0}
