"""Catalogue of studies: their arms, environments, scales and findings.

Everything that is not an arm's own change is the same in all cells of a study.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from trainer.config.files import load_preset, with_overrides
from trainer.config.run import RunConfig

Scale = Literal["smoke", "pocket", "paper"]
SCALES: tuple[Scale, ...] = get_args(Scale)
Changes = Mapping[str, Any]
"""Dotted settings with their values."""

REWARD, SUCCESS, SPREAD = "reward/mean", "success/rate", "reward/in_group_std"
ENTROPY, GRADIENT, THOUGHT = "entropy/mean", "policy/grad_norm", "length/think"
TRAP = (SUCCESS, SPREAD, ENTROPY, GRADIENT)
"""Metrics in which the paper shows a collapse."""


@dataclass(frozen=True)
class Arm:
    """A variant that a study compares: changes to a preset. `paper` are further changes at that scale only."""

    name: str
    title: str
    preset: Literal["starpo", "starpo_s"]
    changes: Changes = field(default_factory=dict)
    paper: Changes = field(default_factory=dict)


Claim = Literal["higher", "collapses_later", "less_update_time", "less_memory", "not_lower", "falls"]


@dataclass(frozen=True)
class Finding:
    """A statement of the paper that a study can test: `arm` against `other` in each environment.

    `metric` is compared by claims that need one.
    """

    words: str
    claim: Claim
    arm: str
    other: str = ""
    suite: str = ""
    metric: str = SUCCESS


@dataclass(frozen=True)
class Study:
    """A grid: environments × arms × seeds.

    `pocket` are changes to all cells at that scale; `suites` are further environments that every cell is evaluated in.
    """

    name: str
    title: str
    question: str
    environments: tuple[str, ...]
    arms: tuple[Arm, ...]
    findings: tuple[Finding, ...]
    curves: tuple[str, ...] = (SUCCESS,)
    suites: tuple[str, ...] = ()
    pocket: Changes = field(default_factory=dict)
    seeds: Mapping[Scale, int] = field(default_factory=lambda: {"smoke": 1, "pocket": 3, "paper": 1})


SMOKE: Changes = {
    "iterations": 2,
    "policy.threads": 1,
    "policy.device": "cpu",
    "rollout.groups": 2,
    "rollout.group_size": 2,
    "rollout.max_turns": 2,
    "rollout.max_response_tokens": 8,
    "optimizer.mini_batch_trajectories": 4,
    "optimizer.micro_batch_tokens": 1024,
    "evaluation.prompts": 2,
    "evaluation.every": 0,
    "checkpoint.keep": 1,
    "sft.demonstrations": 4,
    "sft.validation_demonstrations": 2,
    "sft.batch": 2,
}
POCKET: Changes = {
    "policy.threads": 1,  # two concurrent cells on two cores
    "iterations": 40,
    "evaluation.every": 10,
    "checkpoint.keep": 1,
}
"""Common to all pocket cells, in addition to the pocket presets: P = 16, N = 8, lr 2e-4."""

_STARPO, _STARPO_S = Arm("starpo", "StarPO", "starpo"), Arm("starpo_s", "StarPO-S", "starpo_s")
_PPO = {"algorithm.estimator": "gae"}
_GRPO = {"algorithm.estimator": "grpo", "algorithm.normalize_by_std": True}
_NO_FILTER = {"algorithm.group_filter": "none", "algorithm.group_filter_keep": 1.0}

_ALL = (
    Study(
        "figure-5",
        "StarPO collapses",
        "Does plain training with PPO or GRPO run into the Echo Trap, and which metric shows it first?",
        ("bandit", "sokoban", "frozen_lake"),
        (Arm("ppo", "PPO", "starpo", _PPO), Arm("grpo", "GRPO", "starpo", _GRPO)),
        (Finding("PPO collapses later than GRPO", "collapses_later", "ppo", "grpo"),),
        curves=TRAP,
    ),
    Study(
        "figure-7",
        "Share of groups kept by the uncertainty filter",
        "Does learning only from the groups with the widest rewards delay the collapse, and what does it save?",
        ("frozen_lake", "sokoban"),
        tuple(
            Arm(f"keep-{percent}", f"{percent} % kept", "starpo", _PPO | changes)
            for percent, changes in (
                (100, _NO_FILTER),
                (75, {"algorithm.group_filter": "std", "algorithm.group_filter_keep": 0.75}),
                (50, {"algorithm.group_filter": "std", "algorithm.group_filter_keep": 0.5}),
                (25, {"algorithm.group_filter": "std", "algorithm.group_filter_keep": 0.25}),
            )
        ),
        (
            Finding("Keeping 75 % delays the collapse", "collapses_later", "keep-75", "keep-100"),
            Finding("Keeping 50 % delays the collapse", "collapses_later", "keep-50", "keep-100"),
            Finding("Keeping 25 % saves update time", "less_update_time", "keep-25", "keep-100"),
        ),
        curves=TRAP,
    ),
    Study(
        "figure-8",
        "KL penalty and clip-higher",
        "Does removing the KL penalty, or a wider upper clip, delay the collapse?",
        ("sokoban", "frozen_lake"),
        (
            Arm("base", "KL 0.001, clip 0.2", "starpo", _PPO),
            Arm("no-kl", "no KL", "starpo", _PPO | {"algorithm.kl_coef": 0.0}),
            Arm("clip-higher", "clip-higher", "starpo", _PPO | {"algorithm.clip_high": 0.28}),
            Arm("both", "both", "starpo", _PPO | {"algorithm.kl_coef": 0.0, "algorithm.clip_high": 0.28}),
        ),
        (
            Finding("Without KL the collapse comes later", "collapses_later", "no-kl", "base"),
            Finding("With clip-higher the collapse comes later", "collapses_later", "clip-higher", "base"),
            Finding("With both, success is higher", "higher", "both", "base"),
        ),
        curves=(SUCCESS, SPREAD),
    ),
    Study(
        "figure-9",
        "StarPO against StarPO-S",
        "Is StarPO-S, with its filter, clip-higher and no KL penalty, more stable and more successful?",
        ("bandit", "sokoban", "frozen_lake"),
        (_STARPO, _STARPO_S),
        (
            Finding("StarPO-S ends with more successes than StarPO", "higher", "starpo_s", "starpo"),
            Finding("StarPO-S collapses later than StarPO, or not at all", "collapses_later", "starpo_s", "starpo"),
            Finding("StarPO-S needs less time for its updates", "less_update_time", "starpo_s", "starpo"),
        ),
        curves=TRAP,
    ),
    Study(
        "figure-10",
        "Online-k: how fresh rollouts should be",
        "What does it cost to learn several times from one rollout?",
        ("sokoban", "frozen_lake"),
        tuple(
            Arm(
                f"k-{k}",
                f"{k} update{'s' if k > 1 else ''} a rollout",
                "starpo_s",
                {"algorithm.updates_per_rollout": k},
            )
            for k in (1, 2, 5, 10)
        ),
        (
            Finding("One update a rollout ends higher than two", "higher", "k-1", "k-2"),
            Finding("One update a rollout ends higher than five", "higher", "k-1", "k-5"),
            Finding("One update a rollout ends higher than ten", "higher", "k-1", "k-10"),
        ),
        curves=(SUCCESS, GRADIENT),
    ),
    Study(
        "figure-11",
        "Length of thoughts",
        "Do thoughts get shorter while the agent learns?",
        ("bandit", "sokoban", "frozen_lake"),
        (_STARPO_S,),
        (Finding("Thoughts get shorter", "falls", "starpo_s", metric=THOUGHT),),
        curves=(THOUGHT, SUCCESS),
    ),
    Study(
        "table-2",
        "Responses per prompt",
        "For the same number of trajectories: many initial states with few responses each, or the reverse?",
        ("sokoban",),
        tuple(
            Arm(f"n-{n}", f"{128 // n} × {n}", "starpo_s", {"rollout.groups": 128 // n, "rollout.group_size": n})
            for n in (32, 16, 8, 4)
        ),
        (
            Finding("Four responses beat sixteen", "higher", "n-4", "n-16"),
            Finding("… with the new vocabulary", "higher", "n-4", "n-16", suite="SokobanNewVocab"),
            Finding("… in FrozenLake", "higher", "n-4", "n-16", suite="FrozenLake"),
        ),
        suites=("SokobanNewVocab", "FrozenLake"),
    ),
    Study(
        "table-3",
        "Actions per turn",
        "How many actions should one turn execute, with ten in the whole episode?",
        ("sokoban",),
        tuple(
            Arm(f"actions-{number}", f"{number} a turn", "starpo_s", {"rollout.max_actions_per_turn": number})
            for number in range(1, 8)
        ),
        (
            Finding("Five actions a turn beat one", "higher", "actions-5", "actions-1"),
            Finding("Six actions a turn beat one", "higher", "actions-6", "actions-1"),
            Finding("Six actions a turn beat seven", "higher", "actions-6", "actions-7"),
        ),
        suites=("LargeSokoban",),
    ),
    Study(
        "table-4",
        "With and without thinking",
        "Does a thought before the answer help when the meaning of the arms is reversed?",
        ("bandit",),
        (
            Arm("think", "with a thought", "starpo_s"),
            Arm("no-think", "without", "starpo_s", {"rollout.think": False}),
        ),
        (
            Finding("Thinking helps in Bandit", "higher", "think", "no-think"),
            Finding("Thinking helps in BanditRev", "higher", "think", "no-think", suite="BanditRev"),
        ),
        suites=("BanditRev",),
    ),
    Study(
        "appendix-c",
        "Imitating a solver against RL",
        "How far does the SFT baseline get, which imitates solutions?",
        ("sokoban", "frozen_lake"),
        (
            _STARPO_S,
            Arm("sft", "SFT", "starpo_s", {"kind": "sft"}, paper={"lora.rank": 64, "lora.alpha": 32}),
        ),
        (Finding("SFT ends with more successes than RL", "higher", "sft", "starpo_s"),),
    ),
    Study(
        "appendix-d",
        "LoRA",
        "Do low-rank adapters learn as well as full training, with half the memory?",
        ("sokoban", "frozen_lake"),
        (
            Arm("full", "all weights", "starpo_s"),
            Arm(
                "lora",
                "LoRA",
                "starpo_s",
                {"lora.rank": 64, "lora.alpha": 64, "optimizer.policy_lr": "× 10", "optimizer.critic_lr": "× 10"},
            ),
        ),
        (
            Finding("LoRA needs less memory", "less_memory", "lora", "full"),
            Finding("LoRA is no worse", "not_lower", "lora", "full"),
        ),
    ),
)
STUDIES: dict[str, Study] = {study.name: study for study in _ALL}


def find(name: str) -> Study:
    """The study of that name. Raises ValueError naming the choices."""
    if name not in STUDIES:
        raise ValueError(f"unknown study {name!r}; choose one of {', '.join(STUDIES)}")
    return STUDIES[name]


def configuration(
    study: Study, scale: Scale, environment: str, arm: Arm, seed: int, overrides: Sequence[str] = ()
) -> RunConfig:
    """Settings of one cell, with further changes as on the command line (`section.field=value`).

    Raises:
        ValueError: an unreadable change, or (pydantic's ValidationError) an invalid one.
    """
    preset = load_preset(f"{environment}-{arm.preset}-{'paper' if scale == 'paper' else 'pocket'}")
    data = preset.model_dump()
    for changes in (
        {"evaluation.suites": list(study.suites), "name": f"{study.name}: {environment}, {arm.title}, seed {seed}"},
        {} if scale == "paper" else {**POCKET, **study.pocket},
        arm.changes,
        arm.paper if scale == "paper" else {},
        SMOKE if scale == "smoke" else {},
        {"seed": seed},
    ):
        for name, value in changes.items():
            _put(data, name, value)
    return with_overrides(RunConfig.model_validate(data), overrides)


def _put(data: dict[str, Any], name: str, value: Any) -> None:
    *path, last = name.split(".")
    for part in path:
        data = data[part]
    factor = str(value).removeprefix("× ")
    data[last] = data[last] * float(factor) if str(value).startswith("× ") else value
