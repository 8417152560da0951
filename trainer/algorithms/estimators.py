"""Registry of advantage estimators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor


class EstimatorSettings(Protocol):
    """Settings that estimators read; `AlgorithmConfig` has them."""

    gamma: float
    gae_lambda: float
    turn_gamma: float
    normalize_by_std: bool


@dataclass(frozen=True)
class EstimatorInputs:
    """Inputs of an estimator with one row per trajectory; (B, T) unless noted.

    Attributes:
        rewards: per token, normalised, after the KL penalty.
        values: predictions of the critic; only for estimators with `needs_critic`.
        mask: policy tokens.
        turns: turn of each policy token, counted from 0.
        group: (B,) id of the initial state.
        anchors: (B, K) id of the state in which each turn began; negative for missing turns.
    """

    rewards: Tensor
    values: Tensor | None
    mask: Tensor
    turns: Tensor
    group: Tensor
    anchors: Tensor

    @property
    def critic_values(self) -> Tensor:
        """Return the (B, T) values. Raises ValueError without a critic."""
        if self.values is None:
            raise ValueError("this estimator needs the critic's values")
        return self.values


@dataclass(frozen=True)
class AdvantageEstimate:
    """(B, T) advantages and, with a critic, its (B, T) regression targets; both 0 off the mask."""

    advantages: Tensor
    returns: Tensor | None = None


EstimatorFunction = Callable[[EstimatorInputs, EstimatorSettings], AdvantageEstimate]


@dataclass(frozen=True)
class Estimator:
    """An entry of the registry.

    Attributes:
        function: the estimator, or its "module:name": settings are read in processes that do not import torch.
        needs_critic: reads `EstimatorInputs.values` and returns targets for the critic.
        needs_groups: compares the trajectories of a group, so that a group must have at least two.
    """

    function: EstimatorFunction | str
    needs_critic: bool = False
    needs_groups: bool = False

    def estimate(self, inputs: EstimatorInputs, settings: EstimatorSettings) -> AdvantageEstimate:
        """Return the advantages of all policy tokens. Raises ValueError if the critic's values are missing."""
        function: EstimatorFunction = resolve_name(self.function) if isinstance(self.function, str) else self.function
        return function(inputs, settings)


ESTIMATORS: dict[str, Estimator] = {
    "gae": Estimator("trainer.algorithms.advantages:gae_advantages", needs_critic=True),
    "bi_level_gae": Estimator("trainer.algorithms.advantages:bi_level_gae_advantages", needs_critic=True),
    "grpo": Estimator("trainer.algorithms.advantages:grpo_advantages", needs_groups=True),
    "rloo": Estimator("trainer.algorithms.advantages:rloo_advantages", needs_groups=True),
    "reinforce_plus_plus": Estimator("trainer.algorithms.advantages:reinforce_plus_plus_advantages"),
    "reinforce_plus_plus_verl": Estimator("trainer.algorithms.advantages:reinforce_plus_plus_verl_advantages"),
    "reinforce_plus_plus_baseline": Estimator(
        "trainer.algorithms.advantages:reinforce_plus_plus_baseline_advantages", needs_groups=True
    ),
    "gigpo": Estimator("trainer.algorithms.gigpo:gigpo_advantages", needs_groups=True),
    "mt_grpo": Estimator("trainer.algorithms.turn_credit:mt_grpo_advantages", needs_groups=True),
    "turn_gae": Estimator("trainer.algorithms.turn_credit:turn_gae_advantages", needs_critic=True),
}
"""Values of `algorithm.estimator`: a new one is a function and a line here."""
