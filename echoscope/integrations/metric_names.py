"""Records metrics of other trainers under the names of docs/metrics.md, in addition to their names.

The live page and the Echo Trap panel look for these names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from echoscope.recording.json_values import number_in

STANDARD_NAMES: Mapping[str, str] = {
    "grad_norm": "policy/grad_norm",  # transformers, TRL
    "entropy": "entropy/mean",  # TRL
    "reward": "reward/mean",  # TRL; its reward_std is the standard deviation of the whole batch
    "actor/grad_norm": "policy/grad_norm",  # verl
    "actor/entropy": "entropy/mean",
    "critic/rewards/mean": "reward/mean",
    "optim/grad_norm": "policy/grad_norm",  # prime-rl
    "entropy/all/mean": "entropy/mean",
    "train/agg/all/reward/mean": "reward/mean",
    "reward/all/mean": "reward/mean",  # formerly
}
"""Names of trainers and the standard name of the same quantity."""


def with_standard_names(
    values: Mapping[str, Any], standard_names: Mapping[str, str] = STANDARD_NAMES
) -> dict[str, float]:
    """Return the numbers among the values, with finite numbers of known quantities also under their standard names.

    Texts and tables, which trainers log as well, are left out without a warning.
    """
    numbers = {name: number for name, value in values.items() if (number := number_in(value)) is not None}
    known = {name: number for name, number in numbers.items() if name in standard_names and math.isfinite(number)}
    return {**{standard_names[name]: number for name, number in known.items()}, **numbers}
