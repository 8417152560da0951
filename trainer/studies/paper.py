"""Figures that the paper reports (arXiv 2504.20073, half a billion parameters), by study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainer.studies.method import ESTIMATORS, ArmConfig, estimator


@dataclass(frozen=True)
class Reported:
    """A figure of the paper, with environment and arm of the corresponding cell, if any.

    `estimator` is the estimator of the measurement, PPO for all but a few figures; empty for several estimators.
    """

    what: str
    value: str
    environment: str = ""
    arm: str = ""
    estimator: str = "gae"


REPORTED: dict[str, tuple[Reported, ...]] = {
    "figure-5": (
        Reported("collapse", "iteration 20", "bandit", "grpo", "grpo"),
        Reported("collapse", "iteration 100", "bandit", "ppo"),
        Reported("collapse", "iteration 10", "sokoban", "grpo", "grpo"),
        Reported("collapse", "iteration 50", "sokoban", "ppo"),
        Reported("the spread within groups drops", "iteration 40", "frozen_lake", "ppo"),
        Reported("collapse", "iteration 90", "frozen_lake", "ppo"),
        Reported("the gradient spikes", "iteration 170", "bandit", estimator=""),
        Reported("the gradient spikes", "iteration 110", "sokoban", estimator=""),
        Reported("the gradient spikes", "iteration 90", "frozen_lake", estimator=""),
    ),
    "figure-7": (
        Reported("collapse", "iteration 100", "frozen_lake", "keep-100"),
        Reported("collapse", "iteration 140", "frozen_lake", "keep-75"),
        Reported("collapse", "none within 200 iterations", "frozen_lake", "keep-50"),
        Reported("time of all updates", "about half", "", "keep-25"),
    ),
    "figure-8": (Reported("no KL penalty, and a wider upper clip", "both delay the collapse"),),
    "figure-9": (
        Reported("final success", "20.3%", "sokoban", "starpo_s"),
        Reported("final success", "21.8%", "frozen_lake", "starpo_s"),
        Reported("StarPO-S against StarPO", "collapses later, ends higher"),
    ),
    "figure-10": (Reported("success by batches from one rollout", "1 > 2 > 5 > 10: fresher is better"),),
    "figure-11": (Reported("length of thoughts", "falls in the course of training"),),
    "table-2": (
        Reported("success", "20.7%", "sokoban", "n-4"),
        Reported("success with the new vocabulary", "25.4%", "sokoban", "n-4"),
        Reported("success in FrozenLake", "21.5%", "sokoban", "n-4"),
        Reported("best number of responses per prompt", "4"),
    ),
    "table-3": tuple(
        Reported(f"success ({where})", f"{value}%", "sokoban", f"actions-{number}")
        for where, row in (
            ("Sokoban", (12.1, 16.4, 19.5, 27.0, 28.1, 33.6, 22.3)),
            ("larger Sokoban", (1.2, 3.5, 2.0, 5.1, 6.3, 6.6, 3.9)),
        )
        for number, value in enumerate(row, start=1)
    ),
    "table-4": (
        Reported("success with unseen names", "100%", "bandit_teacher", "think"),
        Reported("success with unseen names", "81.3%", "bandit_teacher", "no-think"),
        Reported("success with unseen names, exchanged", "67.6%", "bandit_teacher", "think"),
        Reported("success with unseen names, exchanged", "56.3%", "bandit_teacher", "no-think"),
    ),
    "appendix-c": (
        Reported("final success", "20.3%", "sokoban", "starpo_s"),
        Reported("final success", "74.6%", "sokoban", "sft"),
        Reported("final success", "21.8%", "frozen_lake", "starpo_s"),
        Reported("final success", "23%", "frozen_lake", "sft"),
    ),
    "appendix-d": (
        Reported("memory", "about half", "", "lora"),
        Reported("final success", "the same", "", "lora"),
    ),
    "turn-credit": (),
    "true-thoughts": (),
    "echo-trap": (
        Reported("collapse of GRPO", "iteration 20", "bandit", "starpo", "grpo"),
        Reported("StarPO-S against StarPO", "collapses later, ends higher", "", "starpo_s"),
    ),
}


def other_estimators(study: str, configs: Sequence[ArmConfig]) -> str:
    """Name the arms that learn with another estimator than the paper's corresponding figures."""
    arms_by_estimators: dict[tuple[str, str], dict[str, None]] = {}
    arms = {arm.arm for arm in configs}
    for arm in configs:
        for reported in REPORTED.get(study, ()):
            corresponds = reported.arm in ("", arm.name) and reported.environment in ("", arm.environment)
            differs = reported.estimator not in ("", arm.config.algorithm.estimator)
            if arm.config.kind == "train" and corresponds and differs:
                pair = (estimator(arm.config), ESTIMATORS[reported.estimator])
                arms_by_estimators.setdefault(pair, {})[arm.arm] = None
    return " ".join(
        f"{'All arms' if set(titles) == arms else ', '.join(titles)}: {here}; the paper's figures are of {there}."
        for (here, there), titles in arms_by_estimators.items()
    )
