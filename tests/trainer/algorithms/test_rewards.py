from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.random_batches import Dialogues, dialogues
from trainer.algorithms import rewards
from trainer.algorithms.advantages import only
from trainer.algorithms.reward_normalizations import NORMALIZATIONS, Grouping, Normalization
from trainer.algorithms.rewards import normalize, normalize_tokens

STATES = torch.tensor([0, 0, 1, 1])
ENVIRONMENTS = torch.tensor([0, 0, 0, 0])
SCORES = torch.tensor([0.0, 10.0, 1.0, 3.0])


@pytest.mark.parametrize(
    ("structured", "known", "unknown", "by_structure", "by_actions"),
    [
        (True, 2, 0, True, True),
        (True, 1, 1, True, False),
        (True, 0, 1, True, False),
        (True, 0, 0, False, False),
        (False, 2, 0, False, False),
    ],
)
def test_format_penalty_follows_both_rules(
    structured: bool, known: int, unknown: int, by_structure: bool, by_actions: bool
) -> None:
    def valid(rule: rewards.FormatRule) -> bool:
        return rewards.is_format_valid(structured=structured, known_actions=known, unknown_actions=unknown, rule=rule)

    assert valid("structure") == by_structure
    assert valid("actions") == by_actions


@given(d=dialogues())
def test_the_kl_penalty_applies_to_policy_tokens_only(d: Dialogues) -> None:
    paid = d.rubbish(d.numbers(1), 0.0)
    kl = d.rubbish(d.numbers(2), float("nan"))
    found = rewards.subtract_kl(paid, kl, d.mask, 0.5)
    assert not found[~d.mask].any()
    torch.testing.assert_close(found[d.mask], paid[d.mask] - 0.5 * kl[d.mask])


def test_grouping_determines_the_baseline() -> None:
    def centred(grouping: Grouping) -> list[float]:
        return rewards.normalize(SCORES, STATES, ENVIRONMENTS, grouping=grouping, method="mean").tolist()

    assert centred("state") == [-5.0, 5.0, -1.0, 1.0]
    assert centred("environment") == centred("batch") == [-3.5, 6.5, -2.5, -0.5]
    two_environments = rewards.normalize(SCORES, STATES, STATES, grouping="environment", method="mean")
    assert two_environments.tolist() == [-5.0, 5.0, -1.0, 1.0]


def test_asymmetric_clip_bounds_negative_rewards_more_tightly() -> None:
    scores = torch.tensor([*([0.0] * 30), 100.0])
    one = torch.zeros(31, dtype=torch.long)
    high = rewards.normalize(scores, one, one, grouping="batch", method="asym_clip")
    low = rewards.normalize(-scores, one, one, grouping="batch", method="asym_clip")
    assert float(high.max()) == 3.0
    assert float(low.min()) == -1.0


def test_identity_keeps_scores_unchanged() -> None:
    assert (
        rewards.normalize(SCORES, STATES, ENVIRONMENTS, grouping="state", method="identity").tolist() == SCORES.tolist()
    )


def test_normalisations_are_named_after_what_they_compare() -> None:
    assert len(NORMALIZATIONS) == 10
    assert NORMALIZATIONS["mean"] == ("mean", "state")
    assert NORMALIZATIONS["environment_mean_std"] == ("mean_std", "environment")
    assert NORMALIZATIONS["batch_asym_clip"] == ("asym_clip", "batch")


@given(d=dialogues(), normalization=st.sampled_from(list(NORMALIZATIONS.values())))
def test_token_rewards_add_up_to_the_normalised_reward_of_their_trajectory(
    d: Dialogues, normalization: Normalization
) -> None:
    method, grouping = normalization
    raw, state = only(d.numbers(1), d.mask), d.groups(2)
    environment = state // 2
    found = normalize_tokens(raw, d.mask, state, environment, grouping=grouping, method=method)
    wanted = normalize(raw.sum(1), state, environment, grouping=grouping, method=method)
    there = d.mask.any(dim=1)
    torch.testing.assert_close(found.sum(1)[there], wanted[there], rtol=1e-4, atol=1e-4)
    assert not found[~d.mask].any()


def test_centring_rewards_changes_the_last_token_only() -> None:
    raw, mask = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]]), torch.ones(2, 3, dtype=torch.bool)
    same = torch.zeros(2, dtype=torch.long)
    found = normalize_tokens(raw, mask, same, same, grouping="state", method="mean")
    assert found.tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, -2.0]]


def test_scaling_rewards_scales_every_token_and_centres_on_the_last_one() -> None:
    raw, mask = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]]), torch.ones(2, 3, dtype=torch.bool)
    same = torch.zeros(2, dtype=torch.long)
    std = torch.tensor([3.0, 1.0]).std()
    found = normalize_tokens(raw, mask, same, same, grouping="state", method="mean_std")
    torch.testing.assert_close(found[:, :2], raw[:, :2] / std, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found.sum(1), torch.tensor([1.0, -1.0]) / std, rtol=1e-4, atol=1e-4)
