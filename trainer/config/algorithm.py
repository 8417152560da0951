"""Algorithm section of RunConfig: estimator, loss, group filter, dynamic sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from trainer.algorithms.aggregations import AGGREGATIONS
from trainer.algorithms.estimators import ESTIMATORS
from trainer.algorithms.group_filter import FilterLossScaling, FilterMethod, kept_count
from trainer.algorithms.kl_estimators import KL_PENALTIES
from trainer.algorithms.objectives import OBJECTIVES
from trainer.algorithms.reward_normalizations import NORMALIZATIONS
from trainer.config.base import Section, setting
from trainer.config.conditions import (
    ONLY_TRAINING,
    TRAINS_NOT,
    Data,
    NoEffect,
    is_above,
    is_empty,
    is_none_of,
    is_one_of,
    is_zero,
)
from trainer.config.dotted import value_at

if TYPE_CHECKING:
    EstimatorName = str
    Aggregation = str
    KLPenalty = str
    NormalizationName = str
    ObjectiveName = str
else:
    EstimatorName = Literal[tuple(ESTIMATORS)]
    Aggregation = Literal[tuple(AGGREGATIONS)]
    KLPenalty = Literal[KL_PENALTIES]
    NormalizationName = Literal[tuple(NORMALIZATIONS)]
    ObjectiveName = Literal[tuple(OBJECTIVES)]

_RANKED = ("std", "std_rev", "range")
"""Filters that keep a share of the groups; with other filters the number depends on the rewards."""
_CRITIC = 2.2
"""Ratio of an update's time with a critic to its time without, measured with PPO."""
_ESTIMATOR = "algorithm.estimator"
_KEEPS_ALL = is_one_of("algorithm.group_filter", ("none", "soft"))
_ALL_KEPT = "group filter “{algorithm.group_filter}” keeps all groups"
_SAMPLES_DYNAMICALLY = is_above("algorithm.dynamic_sampling_rounds", 1)


def without_critic(data: Data) -> bool:
    """True if the estimator uses no critic; False for the name of no estimator."""
    estimator = ESTIMATORS.get(str(value_at(data, _ESTIMATOR)))
    return estimator is not None and not estimator.needs_critic


class AlgorithmConfig(Section):
    """Advantages, loss and group filter of StarPO and StarPO-S."""

    no_effect = (
        NoEffect((TRAINS_NOT,), ONLY_TRAINING),
        NoEffect(
            (without_critic,),
            "the estimator “{algorithm.estimator}” has no critic",
            ("gae_lambda", "value_coef"),
        ),
        NoEffect(
            (is_none_of(_ESTIMATOR, ("bi_level_gae", "gigpo", "mt_grpo", "turn_gae")),),
            "the estimator “{algorithm.estimator}” does not discount from turn to turn",
            ("turn_gamma",),
        ),
        NoEffect(
            (is_none_of(_ESTIMATOR, ("grpo", "gigpo", "mt_grpo")),),
            "the estimator “{algorithm.estimator}” does not divide by the group’s std",
            ("normalize_by_std",),
        ),
        NoEffect(
            (is_zero("algorithm.kl_coef"),),
            "algorithm.kl_coef is 0: no KL penalty",
            ("kl_penalty",),
        ),
        NoEffect(
            (is_none_of("algorithm.objective", ("clip",)),),
            "the objective “{algorithm.objective}” has no dual clip",
            ("dual_clip",),
        ),
        NoEffect((_KEEPS_ALL,), _ALL_KEPT, ("group_filter_keep",)),
        NoEffect(
            (_SAMPLES_DYNAMICALLY,),
            "dynamic sampling replaces groups whose rewards are all equal",
            ("drop_zero_std",),
        ),
        NoEffect((_KEEPS_ALL, _SAMPLES_DYNAMICALLY), _ALL_KEPT, ("filter_loss_scaling",)),
        NoEffect((_KEEPS_ALL, is_empty("algorithm.drop_zero_std")), _ALL_KEPT, ("filter_loss_scaling",)),
    )

    estimator: EstimatorName = setting(
        "gae",
        "Advantage estimator: gae (PPO with a critic), bi_level_gae (over turns, then tokens), grpo (group-normalised "
        "reward), rloo (leave-one-out baseline of the group), reinforce_plus_plus (whitened reward-to-go), "
        "reinforce_plus_plus_verl (its form in veRL: a turn gets no credit for later turns, so that with "
        "reward_position outcome only the last one gets any), reinforce_plus_plus_baseline, gigpo (GRPO plus "
        "turn-level credit against turns from the same state), mt_grpo (the return from each turn on against the mean "
        "of the group), turn_gae (PPO with a critic and turns as actions).",
        source="paper: gae and grpo; its code: bi_level_gae",
    )
    normalize_by_std: bool = setting(True, "Divide what GRPO, GiGPO and MT-GRPO compare by its std in the group.")
    gamma: float = setting(1.0, "Discount γ.", source="paper: 1.0", ge=0, le=1)
    gae_lambda: float = setting(1.0, "GAE's λ.", source="paper: 1.0", ge=0, le=1)
    turn_gamma: float = setting(
        0.95,
        "Discount between turns, for bi_level_gae, gigpo, mt_grpo and turn_gae.",
        source="RAGEN code: 0.95",
        ge=0,
        le=1,
    )
    reward_normalization: NormalizationName = setting(
        "identity",
        "Normalisation of R(τ) before the estimator: none (identity), mean subtracted (mean), also divided by the std "
        "(mean_std), also clipped to [−1, 3] (asym_clip); among the trajectories from one state, or, as the name says, "
        "of one environment or of the batch. The group filter always uses raw rewards.",
        source="RAGEN code: all of them",
    )
    reward_position: Literal["turn", "outcome"] = setting(
        "turn", "Place rewards on the last token of their turn, or sum them on the last turn."
    )
    objective: ObjectiveName = setting(
        "clip",
        "What is maximised: clip (PPO's clipped ratio of each token), gspo (the clipped ratio of each response; bounds "
        "of the order of 3e-4), cispo (clipped weights, so that every token keeps its gradient).",
        added=True,
    )
    clip_low: float = setting(0.2, "ε_low: lower clip of the ratio at 1 − ε_low.", source="paper: 0.2", gt=0, lt=1)
    clip_high: float = setting(
        0.2, "ε_high: upper clip of the ratio at 1 + ε_high.", source="paper: StarPO 0.2, StarPO-S 0.28", gt=0, le=10
    )
    dual_clip: float | None = setting(None, "Dual clip c for negative advantages; empty = off.", gt=1, le=100)
    value_coef: float = setting(
        0.5, "Weight of the critic's loss, half the mean squared error.", source="RAGEN code: 1", ge=0, le=100
    )
    aggregation: Aggregation = setting(
        "seq-mean-token-mean",
        "Loss aggregation over tokens and sequences. Dr. GRPO is seq-mean-token-sum-norm with normalize_by_std off.",
        source="paper: Eq. 4, 6",
    )
    entropy_coef: float = setting(0.001, "Weight of the entropy bonus.", source="paper: 0.001", ge=0, le=10)
    kl_coef: float = setting(0.0, "Weight of the KL penalty to the initial policy.", source="paper: StarPO 0.001", ge=0)
    kl_penalty: KLPenalty = setting(
        "reward_k1",
        "KL as a penalty of the rewards or as a term of the loss, and the estimator of the divergence.",
        source="paper: k1",
    )
    group_filter: FilterMethod = setting(
        "none",
        "Groups to learn from: std keeps those with the largest reward std (StarPO-S), std_rev the smallest, range "
        "ranks by best minus worst, top_p_linear keeps groups up to a share of the total spread (RAGEN-2's SNR-aware "
        "filter; none if the total is tiny), top_p_softmax up to a share of the softmax of the spreads, snr is "
        "top_p_linear without groups below 0.01 and with at least one group, min_p keeps those above a share of the "
        "largest spread, soft keeps and weights all. An iteration without a kept group has no update.",
        source="paper: StarPO-S std; RAGEN-2: top_p_linear, top_p_softmax, min_p, soft",
    )
    group_filter_keep: float = setting(
        1.0,
        "Share of groups that the filter keeps (top_p_linear and snr: share of the total spread, top_p_softmax: of the "
        "softmax, min_p: of the largest spread); none and soft keep all groups and ignore it.",
        source="paper: StarPO-S 0.25; RAGEN-2: top_p_linear 0.9",
        gt=0,
        le=1,
    )
    drop_zero_std: bool = setting(True, "Drop groups whose rewards are all equal: they carry no signal.")
    filter_loss_scaling: FilterLossScaling = setting(
        "none",
        "Factor of the advantages where not all groups are kept: none, linear (the kept share) or sqrt (its square "
        "root).",
        source="RAGEN-2: none, linear, sqrt",
        added=True,
    )
    dynamic_sampling_rounds: int = setting(
        1,
        "DAPO's dynamic sampling: maximum rounds of rollouts per iteration. After each, groups whose rewards are all "
        "equal are replaced by new ones, until rollout.groups groups are informative; what is missing after the last "
        "round stays missing. 1 = off.",
        unit="rounds",
        source="DAPO's code: 10",
        added=True,
        ge=1,
        le=100,
    )
    updates_per_rollout: int = setting(
        1,
        "Online-k: updates from one rollout batch.",
        unit="updates",
        source="paper: 1, 2, 5, 10",
        gt=0,
        le=100,
    )
    tis_cap: float | None = setting(
        None,
        "Truncated importance sampling, for engines whose probabilities differ from the trainer's: weight = "
        "min(π_trainer/π_sampler, cap), and the ratio uses the trainer's own probabilities. Empty = off.",
        source="Yao et al. 2025: 2",
        ge=1,
        le=100,
    )

    @property
    def filters_groups(self) -> bool:
        """True if the group filter drops or weights any group; a ranking filter that keeps all groups does neither."""
        keeps_all = self.group_filter in _RANKED and self.group_filter_keep == 1
        return self.group_filter != "none" and not keeps_all

    @property
    def variant(self) -> str:
        """Name of the algorithm in titles: StarPO-S is StarPO with an effective group filter."""
        return "StarPO-S" if self.filters_groups else "StarPO"

    @property
    def passes(self) -> float:
        """Cost of an update, in passes of the policy over all sampled trajectories."""
        kept = self.group_filter_keep if self.group_filter in _RANKED else 1.0
        return kept * self.updates_per_rollout * (_CRITIC if self.needs_critic else 1.0)

    def most_kept(self, groups: int) -> int:
        """Largest number of these groups that an update learns from."""
        return kept_count(groups, self.group_filter_keep) if self.group_filter in _RANKED else groups

    @property
    def kl_placement(self) -> str:
        """Where the KL penalty is: in the reward or in the loss."""
        return self.kl_penalty.partition("_")[0]

    @property
    def kl_estimator(self) -> str:
        """Name of the estimator of the KL divergence."""
        return self.kl_penalty.partition("_")[2]

    @property
    def needs_critic(self) -> bool:
        """True if the estimator uses a critic."""
        return ESTIMATORS[self.estimator].needs_critic

    @property
    def needs_groups(self) -> bool:
        """True if the estimator compares the trajectories of a group."""
        return ESTIMATORS[self.estimator].needs_groups
