"""Catalogue of studies: those of the paper and ours, and the settings of their cells.

Everything that is not an arm's own change is the same in all cells of a study.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import envs
from trainer.config.files import load_preset, with_overrides
from trainer.config.run import RunConfig
from trainer.studies.study import GRADIENT, SPREAD, SUCCESS, THOUGHT, TRAP, Arm, Changes, Finding, Scale, Study

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
    "warmup.think": True,  # the policy that ships
}
POCKET: Changes = {
    "policy.threads": 1,  # two concurrent cells on two cores
    "iterations": 40,
    "rollout.groups": 8,  # half of the presets': all studies together take a working day instead of two
    "evaluation.every": 20,
    "checkpoint.keep": 1,
}
"""Common to all pocket cells, in addition to the pocket presets: P = 8, N = 8."""
POCKET_SOKOBAN: Changes = {
    "optimizer.lr_schedule": "constant",  # the paper's; half as many iterations as the preset's leave no time to decay
    "optimizer.lr_warmup": 0,
    "optimizer.lr_min_ratio": 0.0,
}
"""For those on Sokoban, lr 2e-4."""

_STARPO, _STARPO_S = Arm("starpo", "StarPO", "starpo"), Arm("starpo_s", "StarPO-S", "starpo_s")
_PPO = {"algorithm.estimator": "gae"}
_GRPO = {"algorithm.estimator": "grpo", "algorithm.normalize_by_std": True}
_NO_THINK: Changes = {"rollout.think": False, "warmup.think": False}
"""The pocket policy answers without a thought only if it was warmed up so; other models do as the prompt says."""
_NO_THINK_PAPER: Changes = {
    "rollout.system": "You're a helpful assistant. You always respond with your answer in <answer>...</answer>."
}
"""As in the presets of the bandit, whose system message mentions no thought."""
_KEEP_25: Changes = {"algorithm.group_filter": "std", "algorithm.group_filter_keep": 0.25}
_REWIND: Changes = {
    "echo_trap.action": "rewind",
    "echo_trap.rewind_changes": {name: str(value) for name, value in _KEEP_25.items()},
}
_UNSEEN, _EXCHANGED = "BanditTest", "BanditTest:low_name=Trader:high_name=Librarian"


@dataclass(frozen=True)
class Variant:
    """An environment without presets of its own: those of which it takes, what it changes, and its title."""

    preset: str
    title: str
    changes: Changes


VARIANTS: Mapping[str, Variant] = {
    "bandit_rev": Variant("bandit", "BanditRev", {"environment.name": "BanditRev"}),
    "bandit_teacher": Variant(
        "bandit",
        "Bandit (Teacher, Engineer)",
        {"environment.settings": {"low_name": "Teacher", "high_name": "Engineer"}},
    ),
}
_NO_FILTER = {"algorithm.group_filter": "none", "algorithm.group_filter_keep": 1.0}

_ALL = (
    Study(
        "figure-5",
        "StarPO collapses",
        "Does plain training with PPO or GRPO run into the Echo Trap, and which metric shows it first?",
        ("bandit", "sokoban", "frozen_lake"),
        (Arm("ppo", "PPO", "starpo", _PPO), Arm("grpo", "GRPO", "starpo", _GRPO)),
        (
            Finding(
                "PPO collapses later than GRPO",
                "collapses_later",
                "ppo",
                "grpo",
                environments=("bandit", "sokoban"),
            ),
            Finding(
                "GRPO is more stable than PPO: it collapses later",
                "collapses_later",
                "grpo",
                "ppo",
                environments=("frozen_lake",),
            ),
        ),
        curves=TRAP,
    ),
    Study(
        "figure-7",
        "Share of groups kept by the uncertainty filter",
        "Does learning only from the groups with the widest rewards delay the collapse, and what does it save?",
        ("frozen_lake", "sokoban"),
        tuple(
            Arm(f"{prefix}keep-{percent}", f"{title}{percent} % kept", "starpo", estimator | changes)
            for prefix, title, estimator in (("", "PPO, ", _PPO), ("grpo-", "GRPO, ", _GRPO))
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
        "With as many trajectories and as many updates in all: what does it cost to collect k times as many at once?",
        ("sokoban", "frozen_lake"),
        tuple(
            Arm(
                f"k-{k}",
                f"{k} batch{'es' if k > 1 else ''} a rollout",
                "starpo_s",
                {"algorithm.updates_per_rollout": 1}
                | ({"rollout.groups": f"× {k}", "iterations": f"÷ {k}", "evaluation.every": f"÷ {k}"} if k > 1 else {}),
                stretch=k,
            )
            for k in (1, 2, 5, 10)
        ),
        (
            Finding("One batch a rollout ends higher than two", "higher", "k-1", "k-2"),
            Finding("One batch a rollout ends higher than five", "higher", "k-1", "k-5"),
            Finding("One batch a rollout ends higher than ten", "higher", "k-1", "k-10"),
        ),
        curves=(SUCCESS, GRADIENT),
    ),
    Study(
        "figure-11",
        "Length of thoughts",
        "Do thoughts get shorter while the agent learns?",
        ("bandit", "bandit_rev", "sokoban", "frozen_lake"),
        (_STARPO_S, Arm("no-think", "without thoughts", "starpo_s", _NO_THINK, _NO_THINK_PAPER)),
        (Finding("Thoughts get shorter", "falls", "starpo_s", metric=THOUGHT),),
        curves=(THOUGHT, SUCCESS),
    ),
    Study(
        "table-2",
        "Responses per prompt",
        "For the same number of trajectories: many initial states with few responses each, or the reverse?",
        ("sokoban",),
        tuple(
            Arm(
                f"n-{n}",
                f"{128 // n} × {n}{' (unfiltered)' if n == 1 else ''}",
                "starpo_s",
                _PPO
                | {"rollout.groups": 128 // n, "rollout.group_size": n}
                | (_NO_FILTER if n == 1 else {}),  # a single response has no spread
            )
            for n in (32, 16, 8, 4, 2, 1)
        ),
        (
            Finding("Four responses beat sixteen", "higher", "n-4", "n-16"),
            Finding("… with the new vocabulary", "higher", "n-4", "n-16", suite="SokobanNewVocab"),
            Finding("… in FrozenLake", "higher", "n-4", "n-16", suite="FrozenLake"),
        ),
        suites=("SokobanNewVocab", "FrozenLake"),
        pocket={"iterations": 20},  # of 128 trajectories, which 32 responses to a prompt need
    ),
    Study(
        "table-3",
        "Actions per turn",
        "How many actions may one turn execute, with five turns and at most ten actions in the whole episode?",
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
        suites=("LargeSokoban", "SokobanNewVocab", "FrozenLake"),
    ),
    Study(
        "table-4",
        "With and without thinking",
        "Does a thought before the answer help with names and rooms that were not trained on?",
        ("bandit_teacher", "sokoban"),
        (
            Arm("think", "with a thought", "starpo_s"),
            Arm("no-think", "without", "starpo_s", _NO_THINK, _NO_THINK_PAPER),
        ),
        (
            Finding("Thinking helps where it was trained", "higher", "think", "no-think"),
            Finding(
                "Thinking helps with unseen names, their meaning kept",
                "higher",
                "think",
                "no-think",
                suite=_UNSEEN,
                environments=("bandit_teacher",),
            ),
            Finding(
                "Thinking helps with unseen names, their meaning exchanged",
                "higher",
                "think",
                "no-think",
                suite=_EXCHANGED,
                environments=("bandit_teacher",),
            ),
            Finding(
                "Thinking helps with a new vocabulary",
                "higher",
                "think",
                "no-think",
                suite="SokobanNewVocab",
                environments=("sokoban",),
            ),
        ),
        environment_suites={"bandit_teacher": (_UNSEEN, _EXCHANGED), "sokoban": ("SokobanNewVocab", "LargeSokoban")},
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
    Study(
        "echo-trap",
        "The Echo Trap, and two ways out",
        "Does plain training collapse where dividing by a group's spread favours a sure, small reward? Does StarPO-S, "
        "or a rewind that changes to its filter?",
        ("bandit",),
        (
            Arm("starpo", "StarPO", "starpo", _GRPO),
            Arm("rewind", "StarPO, rewinds", "starpo", {**_GRPO, **_REWIND}),
            Arm("starpo_s", "StarPO-S", "starpo_s", {**_GRPO, **_KEEP_25}),
        ),
        (
            Finding("StarPO-S collapses later than StarPO, or not at all", "collapses_later", "starpo_s", "starpo"),
            Finding("StarPO-S ends with more successes than StarPO", "higher", "starpo_s", "starpo"),
            Finding("A rewind ends with more successes than StarPO (ours)", "higher", "rewind", "starpo"),
        ),
        curves=TRAP,
        pocket={
            "iterations": 240,
            "rollout.groups": 16,
            "evaluation.every": 20,
            "optimizer.policy_lr": 4e-6,
        },
        seeds={"smoke": 1, "pocket": 6, "paper": 3},
    ),
)
STUDIES: dict[str, Study] = {study.name: study for study in _ALL}


def find(name: str) -> Study:
    """The study of that name. Raises ValueError naming the choices."""
    if name not in STUDIES:
        raise ValueError(f"unknown study {name!r}; choose one of {', '.join(STUDIES)}")
    return STUDIES[name]


def label(name: str) -> str:
    """A study as the paper names it, e.g. “Figure 9”."""
    kind, _, number = name.partition("-")
    if kind not in ("figure", "table", "appendix"):
        return f"{kind.capitalize()} {number.capitalize()}"  # ours, not the paper's
    return f"{kind.capitalize()} {number.upper()}"


_TITLES = {"".join(part.lower() for part in name): name for name in envs.names()}


def environment_title(name: str) -> str:
    """An environment of a study as tables show it."""
    if name in VARIANTS:
        return VARIANTS[name].title
    return _TITLES.get(name.replace("_", ""), name)


def configuration(
    study: Study, scale: Scale, environment: str, arm: Arm, seed: int, overrides: Sequence[str] = ()
) -> RunConfig:
    """Settings of one cell, with further changes as on the command line (`section.field=value`).

    Raises:
        ValueError: an unreadable change, or (pydantic's ValidationError) an invalid one.
    """
    variant = VARIANTS.get(environment, Variant(environment, environment, {}))
    preset = load_preset(f"{variant.preset}-{arm.preset}-{'paper' if scale == 'paper' else 'pocket'}")
    data = preset.model_dump()
    name = f"{study.name}: {environment}, {arm.title}, seed {seed}"
    for changes in (
        {"evaluation.suites": list(study.suites_of(environment)), "name": name},
        variant.changes,
        {}
        if scale == "paper"
        else {**POCKET, **(POCKET_SOKOBAN if variant.preset == "sokoban" else {}), **study.pocket},
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
    data[last] = _scaled(data[last], value)


def _scaled(before: Any, value: Any) -> Any:
    """A setting's new value, which may be relative to the one before: "× 10", "÷ 10"."""
    sign, _, factor = str(value).partition(" ")
    match sign:
        case "×":
            return before * (int(factor) if isinstance(before, int) else float(factor))
        case "÷":
            return max(1, before // int(factor)) if isinstance(before, int) else before / float(factor)
    return value
