"""Metrics of other trainers under the names of docs/metrics.md, beside their own.

The live page and the Echo Trap panel look for these names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STANDARD_NAMES: Mapping[str, str] = {
    "grad_norm": "policy/grad_norm",  # transformers, TRL
    "entropy": "entropy/mean",  # TRL
    "reward": "reward/mean",  # TRL; its reward_std is that of the whole batch
    "actor/grad_norm": "policy/grad_norm",  # verl
    "actor/entropy": "entropy/mean",
    "critic/rewards/mean": "reward/mean",
    "optim/grad_norm": "policy/grad_norm",  # prime-rl
    "entropy/all/mean": "entropy/mean",
    "train/agg/all/reward/mean": "reward/mean",
    "reward/all/mean": "reward/mean",  # formerly
}
"""Names of trainers and the standard name of the same quantity."""


def with_standard_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, and those of known quantities a second time under their standard names."""
    standard = {STANDARD_NAMES[name]: value for name, value in values.items() if name in STANDARD_NAMES}
    return {**standard, **values}
