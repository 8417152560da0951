"""The most informative changes of one setting of an ended run, offered for its clone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from trainer.config.files import with_values
from trainer.config.removed import stored_config
from trainer.config.run import RunConfig

STARPO_S_KEEP = 0.25
"""Share of groups that StarPO-S keeps in the paper."""


@dataclass(frozen=True)
class Variation:
    """A change for a clone. `key` names it in the address of the launch form."""

    key: str
    label: str
    config: RunConfig


def of_config(config: Mapping[str, Any]) -> list[Variation]:
    """Return at most three variations that the configuration allows; none if it does not fit this version."""
    try:
        base = stored_config(config)
    except ValidationError:
        return []
    return [variation for key, label, change in _changes(base) if (variation := _variation(base, key, label, change))]


def _changes(base: RunConfig) -> list[tuple[str, str, dict[str, Any]]]:
    """Return (key, label, {dotted name: value}) for each change."""
    changes: list[tuple[str, str, dict[str, Any]]] = [
        ("seed", f"Seed {base.seed + 1} instead of {base.seed}: is the result luck?", {"seed": base.seed + 1})
    ]
    if base.kind == "evaluate":
        return [
            (
                "prompts",
                f"{2 * base.evaluation.prompts} evaluation puzzles instead of {base.evaluation.prompts}",
                {"evaluation.prompts": 2 * base.evaluation.prompts},
            )
        ]
    if base.kind == "train":
        filtered = base.algorithm.group_filter != "none"
        keep = STARPO_S_KEEP if base.algorithm.group_filter_keep == 1 else base.algorithm.group_filter_keep
        change = {"algorithm.group_filter": "std", "algorithm.group_filter_keep": keep}
        change = {"algorithm.group_filter": "none"} if filtered else change
        label = f"Group filter {change['algorithm.group_filter']} instead of {base.algorithm.group_filter}"
        changes.append(("filter", f"{label}: what does StarPO-S contribute?", change))
    name, rate = (
        ("sft.learning_rate", base.sft.learning_rate)
        if base.kind == "sft"
        else ("optimizer.policy_lr", base.optimizer.policy_lr)
    )
    return [*changes, ("learning-rate", f"Learning rate {rate / 2:g} instead of {rate:g}", {name: rate / 2})]


def _variation(base: RunConfig, key: str, label: str, change: Mapping[str, Any]) -> Variation | None:
    try:
        return Variation(key, label, with_values(base, change))
    except ValidationError:
        return None
