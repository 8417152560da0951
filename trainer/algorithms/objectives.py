"""Registry of policy objectives: what is minimised for each token, and the ratio that its clipping looks at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class TokenPolicies:
    """Policy tokens of a (micro-)batch, (B, T), 0 off the mask.

    Attributes:
        logprobs: log-probability under the current policy.
        log_ratio: log-probability minus that at sampling time, within bounds that keep its exponential finite.
        advantages: constants.
        mask: policy tokens.
        turns: turn of each policy token, counted from 0.
    """

    logprobs: Tensor
    log_ratio: Tensor
    advantages: Tensor
    mask: Tensor
    turns: Tensor


@dataclass(frozen=True)
class ClipRange:
    """Bounds of a ratio: 1 − `low` to 1 + `high`; `dual` is the bound c > 1 for negative advantages, None = off."""

    low: float
    high: float
    dual: float | None = None


@dataclass(frozen=True)
class TokenObjective:
    """(B, T) losses, and the (B, T) ratios that were compared with the bounds."""

    losses: Tensor
    ratios: Tensor


Objective = Callable[[TokenPolicies, ClipRange], TokenObjective]
OBJECTIVES: dict[str, str] = {
    "clip": "trainer.algorithms.token_objectives:clipped",
    "gspo": "trainer.algorithms.token_objectives:gspo",
    "cispo": "trainer.algorithms.token_objectives:cispo",
}
"""Values of `algorithm.objective`, each the "module:name" of its function: settings are read without torch."""


def get_objective(name: str) -> Objective:
    """Return the function of an objective."""
    function: Objective = resolve_name(OBJECTIVES[name])
    return function
