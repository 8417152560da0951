"""Algorithms against values computed by reference implementations (named per case in the file)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from trainer.algorithms import advantages, group_filter, losses, rewards

VARIABLE = "ECHOSCOPE_GOLDEN_ALGORITHMS"
DEFAULT = Path(__file__).parents[3] / "shared" / "golden" / "algorithms.json"
PATH = Path(os.environ.get(VARIABLE) or DEFAULT)
Case = dict[str, Any]


def load() -> list[Case]:
    """The cases; none where the default file is not there. A path given by hand must exist."""
    if not PATH.exists() and not os.environ.get(VARIABLE):
        return []
    cases: list[Case] = json.loads(PATH.read_text(encoding="utf-8"))["cases"]
    return cases


CASES = load()


def tensor(values: Any) -> Tensor:
    """Numbers, with 'nan', 'inf' and '-inf' as strings, as float32."""

    def number(item: Any) -> Any:
        return [number(part) for part in item] if isinstance(item, list) else float(item)

    return torch.tensor(number(values), dtype=torch.float32)


def ids(labels: list[Any]) -> Tensor:
    known = list(dict.fromkeys(labels))
    return torch.tensor([known.index(label) for label in labels])


def same(ours: Tensor | float, expected: Any, tolerance: float = 1e-6) -> None:
    ours = torch.as_tensor(ours, dtype=torch.float32)
    torch.testing.assert_close(
        ours.detach(), tensor(expected), rtol=max(1e-5, tolerance), atol=tolerance, equal_nan=True
    )


def check_estimated(ours: tuple[Tensor, Tensor], expected: Case, mask: Tensor) -> None:
    raw, returns = ours
    same(raw, expected["advantages_before_whitening"])
    same(returns, expected["returns"])
    same(advantages.only(advantages.masked_whiten(raw, mask), mask), expected["advantages"], 1e-4)


def gae(inputs: Case, params: Case, expected: Case) -> None:
    assert params.get("skip_observation_tokens", True), "only the estimator that skips environment tokens is wanted"
    mask = tensor(inputs["response_mask"])
    found = advantages.gae(
        tensor(inputs["token_level_rewards"]), tensor(inputs["values"]), mask, params["gamma"], params["lam"]
    )
    check_estimated(found, expected, mask)


def bi_level_gae(inputs: Case, params: Case, expected: Case) -> None:
    token_rewards, mask = tensor(inputs["token_level_rewards"]), tensor(inputs["loss_mask"])
    paid = (token_rewards != 0).long()
    turns = paid.cumsum(1) - paid  # the reference takes every non-zero reward for the end of a turn
    found = advantages.bi_level_gae(
        token_rewards, tensor(inputs["values"]), mask, turns, params["gamma"], params["lam"], params["high_level_gamma"]
    )
    check_estimated(found, expected, mask)


def masked_whiten(inputs: Case, params: Case, expected: Case) -> None:
    ours = advantages.masked_whiten(tensor(inputs["values"]), tensor(inputs["mask"]), params["shift_mean"])
    same(ours, expected["whitened"], 1e-4)


def grpo(inputs: Case, params: Case, expected: Case) -> None:
    ours = advantages.grpo(
        tensor(inputs["token_level_rewards"]),
        ids(inputs["index"]),
        tensor(inputs["response_mask"]),
        params["norm_adv_by_std_in_grpo"],
        params["epsilon"],
    )
    same(ours, expected["advantages"])


def rloo(inputs: Case, params: Case, expected: Case) -> None:
    token_rewards, mask = tensor(inputs["token_level_rewards"]), tensor(inputs["response_mask"])
    same(advantages.rloo(token_rewards, ids(inputs["index"]), mask), expected["advantages"])


def reinforce_plus_plus(inputs: Case, params: Case, expected: Case) -> None:
    mask = tensor(inputs["response_mask"])  # some with gaps, at which the reference restarts
    ours, returns = advantages.reinforce_plus_plus_verl(tensor(inputs["token_level_rewards"]), mask, params["gamma"])
    same(ours, expected["advantages"], 1e-4)
    same(returns, (tensor(expected["returns"]) * mask).tolist())


def reinforce_plus_plus_baseline(inputs: Case, params: Case, expected: Case) -> None:
    token_rewards, mask = tensor(inputs["token_level_rewards"]), tensor(inputs["response_mask"])
    ours = advantages.reinforce_plus_plus_baseline(token_rewards, ids(inputs["index"]), mask)
    same(ours, expected["advantages"], 1e-4)


def policy_loss(inputs: Case, params: Case, expected: Case) -> None:
    logprobs = tensor(inputs["log_prob"]).requires_grad_()
    mask = tensor(inputs["response_mask"])
    old = tensor(inputs["old_log_prob"])
    ours = losses.policy_loss(
        losses.LossInputs(logprobs, old, tensor(inputs["advantages"]), mask),
        clip_low=params["clip_ratio_low"],
        clip_high=params["clip_ratio_high"],
        dual_clip=params["clip_ratio_c"],
        aggregation=params["loss_agg_mode"],
    )
    ours.loss.backward()
    same(ours.loss, expected["pg_loss"])
    shares = {name.removeprefix("policy/clip_fraction_"): value for name, value in ours.metrics.items()}
    same(shares["low"] + shares["high"], expected["pg_clipfrac"])
    same(shares.get("dual", 0.0), expected["pg_clipfrac_lower"])
    log_ratio = (old - logprobs).clamp(-losses.MAX_LOG_RATIO, losses.MAX_LOG_RATIO)  # as the reference reports it
    same(losses.aggregate(log_ratio, mask, "token-mean"), expected["ppo_kl"])
    assert logprobs.grad is not None
    same(logprobs.grad, expected["grad_log_prob"])


def value_loss(inputs: Case, params: Case, expected: Case) -> None:
    values = tensor(inputs["vpreds"]).requires_grad_()
    mask = tensor(inputs["response_mask"])
    ours = losses.value_loss(
        losses.ValueLossInputs(values, tensor(inputs["values"]), tensor(inputs["returns"]), mask),
        clip=params["cliprange_value"],
        aggregation=params["loss_agg_mode"],
    )
    ours.loss.backward()
    same(ours.loss, expected["vf_loss"])
    same(ours.metrics["value/clip_fraction"], expected["vf_clipfrac"])
    assert values.grad is not None
    same(values.grad, expected["grad_vpreds"])


def kl_penalty(inputs: Case, params: Case, expected: Case) -> None:
    ours = losses.kl_penalty(tensor(inputs["logprob"]), tensor(inputs["ref_logprob"]), params["kl_penalty"])
    same(ours, expected["kl"])


def entropy(inputs: Case, params: Case, expected: Case) -> None:
    ours = losses.entropy_from_logprobs(torch.log_softmax(tensor(inputs["logits"]), dim=-1))
    mask = tensor(inputs["response_mask"])
    same(ours, expected["token_entropy"])
    total = losses.aggregate(ours, mask, params["loss_agg_mode"])
    same(total, expected["entropy_loss"])


def agg_loss(inputs: Case, params: Case, expected: Case) -> None:
    mask = tensor(inputs["loss_mask"])
    ours = losses.aggregate(tensor(inputs["loss_mat"]), mask, params["loss_agg_mode"])
    same(ours, expected["loss"])


def reward_normalization(inputs: Case, params: Case, expected: Case) -> None:
    grouping = {"inductive": "environment"}.get(params["grouping"], params["grouping"])
    ours = rewards.normalize(
        tensor(inputs["scores"]) + tensor(inputs["penalties"]),
        ids(inputs["group_ids"]),
        ids(inputs["tags"]),
        grouping=grouping,
        method=params["method"],
    )
    same(ours, expected["normalized"])


def rollout_filter(inputs: Case, params: Case, expected: Case) -> None:
    size, groups = params["group_size"], params["num_groups"]
    by_group = [inputs["scores"][g * size : (g + 1) * size] for g in range(groups)]
    ratio, method = params["rollout_filter_ratio"], params["rollout_filter_type"]
    count = int(ratio * groups)  # the reference rounds down
    found = group_filter.keep_groups(by_group, method, count / groups, drop_zero_std=False)
    kept = [g for g, stays in enumerate(found.kept) if stays]
    assert kept == expected["kept_groups"]
    assert [g * size + i for g in kept for i in range(size)] == expected["kept_indices"]
    for prefix, over in (
        ("rollout/in_group_", found.groups),
        ("rollout/chosen_in_group_", [found.groups[g] for g in kept]),
    ):
        ours = {"std": [g.std for g in over], "max": [g.high for g in over], "mean": [g.mean for g in over]}
        for name, numbers in ours.items():
            same(sum(numbers) / len(numbers), expected["metrics"][prefix + name])


CHECKS: dict[str, Callable[[Case, Case, Case], None]] = {
    check.__name__: check
    for check in (
        gae,
        bi_level_gae,
        masked_whiten,
        grpo,
        rloo,
        reinforce_plus_plus,
        reinforce_plus_plus_baseline,
        policy_loss,
        value_loss,
        kl_penalty,
        entropy,
        agg_loss,
        reward_normalization,
        rollout_filter,
    )
}


@pytest.mark.skipif(not CASES, reason=f"no golden file: set {VARIABLE} or put it at {DEFAULT}")
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_algorithm_reproduces_the_reference_values(case: Case) -> None:
    assert case["category"] in CHECKS, f"the golden file has a category this test does not know: {case['category']}"
    CHECKS[case["category"]](case["inputs"], case.get("params", {}), case["expected"])
