"""Catalogue of studies: the paper's studies and ours."""

from __future__ import annotations

from collections.abc import Mapping

from trainer.studies.study import (
    FIRST_THOUGHTS,
    GRADIENT,
    SPREAD,
    SUCCESS,
    THOUGHT,
    TRAP,
    TRUE_CLAIMS,
    Arm,
    Changes,
    Finding,
    Scale,
    Study,
)

_STARPO, _STARPO_S = Arm("starpo", "StarPO", "starpo"), Arm("starpo_s", "StarPO-S", "starpo_s")
_PPO = {"algorithm.estimator": "gae"}
_GRPO = {"algorithm.estimator": "grpo", "algorithm.normalize_by_std": True}
_NO_THINK: Changes = {"rollout.think": False, "warmup.think": False}
"""The pocket policy answers without a thought only after a corresponding warm-up; other models follow the prompt."""
_NO_THINK_PAPER: Changes = {
    "rollout.system": "You're a helpful assistant. You always respond with your answer in <answer>...</answer>."
}
"""Settings of the bandit's presets, with a system message that mentions no thought."""
_KEEP_25: Changes = {"algorithm.group_filter": "std", "algorithm.group_filter_keep": 0.25}
_REWIND: Changes = {
    "echo_trap.action": "rewind",
    "echo_trap.rewind_changes": {name: str(value) for name, value in _KEEP_25.items()},
}
_SHAPED: Changes = {
    "algorithm.estimator": "mt_grpo",
    "algorithm.turn_gamma": 1.0,
    "rewards.terms": {"progress": 1.0},
}
_UNSEEN, _EXCHANGED = "BanditTest", "BanditTest:low_name=Trader:high_name=Librarian"


_NO_FILTER = {"algorithm.group_filter": "none", "algorithm.group_filter_keep": 1.0}


def _lora(factor: int) -> Changes:
    """Return the settings of adapters, at a multiple of the preset's learning rates."""
    rates = {f"optimizer.{model}_lr": f"× {factor}" for model in ("policy", "critic") if factor > 1}
    return {"lora.rank": 64, "lora.alpha": 64, **rates}


def _seeds(paper: int) -> Mapping[Scale, int]:
    """Return seeds by scale: enough for the exact test of the study's claims about collapses, if any is expected."""
    return {"smoke": 1, "pocket": 10, "paper": paper}


_ALL = (
    Study(
        "figure-5",
        "StarPO collapses",
        "Does plain training with PPO or GRPO run into the Echo Trap, and which metric shows it first?",
        ("bandit", "sokoban", "frozen_lake"),
        (
            Arm("ppo", "PPO", "starpo", _PPO),
            Arm("grpo", "GRPO", "starpo", _GRPO),
            Arm("grpo-undivided", "GRPO, not divided", "starpo", {**_GRPO, "algorithm.normalize_by_std": False}),
        ),
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
        seeds=_seeds(paper=5),
    ),
    Study(
        "figure-7",
        "Share of groups kept by the uncertainty filter",
        "Does learning only from the groups with the widest rewards delay the collapse, and what does it save?",
        ("frozen_lake", "sokoban"),
        tuple(
            Arm(f"{prefix}keep-{percent}", f"{title}{percent}% kept", "starpo", estimator | changes)
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
            Finding("GRPO: keeping 25 % saves update time (ours)", "less_update_time", "grpo-keep-25", "grpo-keep-100"),
            Finding(
                "Filtered runs end higher, PPO and GRPO together (ours)",
                "higher_in_strata",
                strata=tuple(
                    (tuple(f"{prefix}keep-{percent}" for percent in (75, 50, 25)), (f"{prefix}keep-100",))
                    for prefix in ("", "grpo-")
                ),
            ),
        ),
        curves=TRAP,
        seeds=_seeds(paper=6),
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
        seeds=_seeds(paper=5),
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
        seeds=_seeds(paper=6),
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
            *(
                Finding(f"Four responses beat sixteen {where}", "higher", "n-4", "n-16", suite=suite)
                for where, suite in (("with the new vocabulary", "SokobanNewVocab"), ("in FrozenLake", "FrozenLake"))
            ),
        ),
        suites=("SokobanNewVocab", "FrozenLake"),
        pocket={"iterations": 20},  # with 128 trajectories each, for 32 responses to a prompt
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
            Finding("Thinking gains more where it was trained", "higher", "think", "no-think", gain=True),
            *(
                Finding(
                    f"Thinking gains more with {what}",
                    "higher",
                    "think",
                    "no-think",
                    suite=suite,
                    environments=(environment,),
                    gain=True,
                )
                for what, suite, environment in (
                    ("unseen names, their meaning kept", _UNSEEN, "bandit_teacher"),
                    ("unseen names, their meaning exchanged", _EXCHANGED, "bandit_teacher"),
                    ("a new vocabulary", "SokobanNewVocab", "sokoban"),
                )
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
            *(
                Arm(name, f"LoRA, rate × {factor}", "starpo_s", _lora(factor))
                for name, factor in (("lora", 10), ("lora-5", 5), ("lora-2", 2), ("lora-1", 1))
            ),
        ),
        (
            Finding("LoRA needs less memory", "less_memory", "lora", "full"),
            Finding("LoRA is no worse", "not_lower", "lora", "full"),
            Finding("LoRA at twice the rate is no worse (ours)", "not_lower", "lora-2", "full"),
        ),
    ),
    Study(
        "turn-credit",
        "Credit for each turn",
        "With as many trajectories and updates: does credit for single turns end higher than one advantage for all?",
        ("sokoban", "frozen_lake"),
        (
            _STARPO,
            Arm("starpo_s", "StarPO-S, as many steps", "starpo_s", {"algorithm.updates_per_rollout": "× 2"}),
            Arm(
                "top-p",
                "top-p filter",
                "starpo",
                {"algorithm.group_filter": "top_p_linear", "algorithm.group_filter_keep": 0.9},
            ),
            Arm("gigpo", "GiGPO", "starpo", {"algorithm.estimator": "gigpo"}),
            Arm("mt-grpo", "MT-GRPO", "starpo", {"algorithm.estimator": "mt_grpo"}),
            Arm("shaped", "MT-GRPO, shaped by the solver", "starpo", _SHAPED),
            Arm("ppo", "PPO", "starpo", _PPO),
            Arm("turn-gae", "PPO over turns", "starpo", {"algorithm.estimator": "turn_gae"}),
        ),
        (
            Finding("GiGPO ends higher than StarPO", "higher", "gigpo", "starpo"),
            Finding("MT-GRPO ends higher than StarPO", "higher", "mt-grpo", "starpo"),
            Finding("Shaping by the solver's values ends higher than MT-GRPO without", "higher", "shaped", "mt-grpo"),
            Finding("PPO over turns ends higher than PPO", "higher", "turn-gae", "ppo"),
        ),
        seeds=_seeds(paper=5),
    ),
    Study(
        "true-thoughts",
        "A reward for true thoughts",
        "Do thoughts stay true where only the outcome is rewarded? Does a reward for true positions keep them true, "
        "and what does it cost?",
        ("sokoban",),
        (
            Arm("outcome", "outcome", "starpo_s"),
            Arm("facts", "outcome and true positions", "starpo_s", {"rewards.terms": {"facts_true": 0.1}}),
        ),
        (
            Finding("Claims become false under the reward of the outcome", "falls", "outcome", metric=TRUE_CLAIMS),
            Finding(
                "A reward for true positions keeps more claims true",
                "metric_higher",
                "facts",
                "outcome",
                metric=TRUE_CLAIMS,
            ),
            Finding("It costs no success", "not_lower", "facts", "outcome"),
        ),
        curves=(SUCCESS, TRUE_CLAIMS),
        seeds=_seeds(paper=5),
    ),
    Study(
        "echo-trap",
        "The trap of dividing by a group's spread, and two ways out",
        "Does plain training collapse where dividing by the spread of groups of eight favours a sure, small reward? "
        "Does StarPO-S, or a rewind that changes to its filter?",
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
        curves=(*TRAP, FIRST_THOUGHTS),
        pocket={
            "iterations": 240,
            "rollout.groups": 16,
            "evaluation.every": 20,
            "optimizer.policy_lr": 4e-6,
        },
        seeds=_seeds(paper=6),
    ),
)
STUDIES: dict[str, Study] = {study.name: study for study in _ALL}


def find(name: str) -> Study:
    """Find the study with that name. Raises ValueError naming the choices."""
    if name not in STUDIES:
        raise ValueError(f"unknown study {name!r}; choose one of {', '.join(STUDIES)}")
    return STUDIES[name]


def label(name: str) -> str:
    """Return a study's name in the paper, e.g. “Figure 9”."""
    kind, _, number = name.partition("-")
    if kind not in ("figure", "table", "appendix"):
        return f"{kind.capitalize()} {number.capitalize()}"  # our own study
    return f"{kind.capitalize()} {number.upper()}"
