"""Registry of estimators of the KL divergence."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

MAX_LOG_RATIO = 20.0
MAX_KL = 10.0


def k1(log_ratio: Tensor) -> Tensor:
    """Unbiased; may be negative."""
    return log_ratio


def k2(log_ratio: Tensor) -> Tensor:
    """Biased, with low variance."""
    return 0.5 * log_ratio**2


def k3(log_ratio: Tensor) -> Tensor:
    """Unbiased and never negative; bounded by ±10 and its log-ratio by ±20, so that one token cannot overflow."""
    reverse = (-log_ratio).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    return (reverse.exp() - reverse - 1).clamp(-MAX_KL, MAX_KL)


def absolute(log_ratio: Tensor) -> Tensor:
    """Return the size of the log-ratio: biased, never negative, and no estimate of the KL divergence."""
    return log_ratio.abs()


KL_ESTIMATORS: dict[str, Callable[[Tensor], Tensor]] = {"k1": k1, "k2": k2, "k3": k3, "abs": absolute}
"""Functions of (B, T) log π − log π_reference. Source: Schulman 2020, "Approximating KL divergence"; abs: verl."""
KL_PENALTIES = tuple(f"{placement}_{name}" for placement in ("reward", "loss") for name in KL_ESTIMATORS)
"""Values of `algorithm.kl_penalty`: where the penalty is subtracted, and its estimator."""
