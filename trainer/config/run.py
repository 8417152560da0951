"""RunConfig: the settings of a run, shared by launch form, API, YAML files and command line.

Every field carries its help (`description`), and in `json_schema_extra` its `unit`, its `source` where the paper
(arXiv 2504.20073) fixes the default, and its former name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from trainer.algorithms import thought_rewards
from trainer.algorithms.aggregations import AGGREGATIONS
from trainer.algorithms.estimators import ESTIMATORS
from trainer.algorithms.group_filter import FilterMethod
from trainer.algorithms.kl_estimators import KL_ESTIMATORS
from trainer.config import former_names, rewind
from trainer.config.base import Section as Section
from trainer.config.base import setting as setting
from trainer.config.engine import EngineConfig as EngineConfig
from trainer.config.environment import BUDGETS
from trainer.config.environment import EnvironmentConfig as EnvironmentConfig
from trainer.config.evaluation import EvaluationConfig as EvaluationConfig
from trainer.config.hosted import HostedConfig as HostedConfig
from trainer.config.imitation import SftConfig as SftConfig
from trainer.config.imitation import WarmupConfig as WarmupConfig
from trainer.config.lora import LoraConfig as LoraConfig
from trainer.config.optimizer import OptimizerConfig as OptimizerConfig
from trainer.config.resources import MemoryConfig as MemoryConfig
from trainer.config.resources import ParallelConfig as ParallelConfig

POCKET = "pocket"
TrackerName = Literal["tensorboard", "wandb", "mlflow", "trackio"]


class PolicyConfig(Section):
    """The language model that acts."""

    model: str = setting(
        POCKET,
        "'pocket' (the built-in one-million-parameter policy), a folder with a transformers checkpoint, or a hub id.",
        source="paper: Qwen/Qwen2.5-0.5B-Instruct",
    )
    dtype: Literal["float32", "bfloat16"] = setting(
        "float32",
        "Precision of the weights in rollouts and updates; bfloat16 halves their memory. Losses, log-probabilities and "
        "advantages are float32 either way.",
    )
    device: Literal["auto", "cpu", "cuda"] = setting("auto", "Device of the policy; auto = a GPU if available.")
    threads: int = setting(0, "CPU threads; 0 = use all cores.", unit="threads", ge=0, le=256)


class RolloutConfig(Section):
    """Rollout before each update: groups, budgets of an episode, sampling."""

    groups: int = setting(8, "P: initial states per iteration.", unit="groups", source="paper: 8", gt=0, le=4096)
    group_size: int = setting(
        16, "N: trajectories from each initial state.", unit="trajectories", source="paper: 16", gt=0, le=4096
    )
    max_turns: int = setting(
        5, "Maximum turns of a trajectory.", unit="turns", source="paper: 5", gt=0, le=BUDGETS["max_turns"]
    )
    max_actions_per_turn: int = setting(
        5,
        "Maximum actions executed per turn.",
        unit="actions",
        source="paper: 5",
        gt=0,
        le=BUDGETS["max_actions_per_turn"],
    )
    max_actions: int = setting(
        10, "Maximum actions of a trajectory.", unit="actions", source="paper: 10", gt=0, le=BUDGETS["max_actions"]
    )
    max_response_tokens: int = setting(
        96, "Maximum length of a response; longer ones are cut.", unit="tokens", gt=0, le=16_384
    )
    temperature: float = setting(1.0, "Sampling temperature.", source="paper: 1.0", gt=0, le=10)
    top_p: float = setting(
        1.0, "Nucleus sampling: probability mass to sample from; below 1 biases the importance ratio.", gt=0, le=1
    )
    top_k: int = setting(0, "Sample from the k likeliest tokens; 0 = all. Above 0 biases the importance ratio.", ge=0)
    min_p: float = setting(
        0.0,
        "Minimum probability of a token, relative to the likeliest; above 0 biases the importance ratio.",
        ge=0,
        lt=1,
    )
    think: bool = setting(True, "Prompt for a thought before the answer.", source="paper: on")
    context_turns: int = setting(
        0,
        "Number of most recent turns kept in the prompt after the task (0 = all). Rewards, turn numbers and budgets "
        "still cover the whole dialogue.",
        unit="turns",
        source="RAGEN code: max_context_window",
        ge=0,
        le=100,
    )

    @property
    def trajectories(self) -> int:
        """Trajectories per iteration."""
        return self.groups * self.group_size

    @property
    def biased(self) -> list[str]:
        """Active settings that exclude tokens from sampling and thereby bias the importance ratio."""
        active = {"top_p": self.top_p < 1, "top_k": self.top_k > 0, "min_p": self.min_p > 0}
        return [f"rollout.{name}" for name, on in active.items() if on]


if TYPE_CHECKING:
    EstimatorName = str
    Aggregation = str
    KLEstimator = str
else:
    EstimatorName = Literal[tuple(ESTIMATORS)]
    Aggregation = Literal[tuple(AGGREGATIONS)]
    KLEstimator = Literal[tuple(KL_ESTIMATORS)]


class AlgorithmConfig(Section):
    """Advantages, loss and group filter of StarPO and StarPO-S."""

    estimator: EstimatorName = setting(
        "gae",
        "Advantage estimator: gae (PPO with a critic), bi_level_gae (over turns, then tokens), grpo (group-normalised "
        "reward), rloo (leave-one-out baseline of the group), reinforce_plus_plus and its baseline form, gigpo (GRPO "
        "plus turn-level credit against turns from the same state).",
        source="paper: gae and grpo; its code: bi_level_gae",
    )
    normalize_by_std: bool = setting(True, "Divide the rewards of GRPO and GiGPO by the group's std (off = Dr. GRPO).")
    gamma: float = setting(1.0, "Discount γ.", source="paper: 1.0", ge=0, le=1)
    gae_lambda: float = setting(1.0, "GAE's λ.", source="paper: 1.0", formerly="lam", ge=0, le=1)
    turn_gamma: float = setting(
        0.95, "Discount between turns, for bi_level_gae and gigpo.", source="RAGEN code: 0.95", ge=0, le=1
    )
    gigpo_omega: float = setting(
        1.0, "Weight ω of gigpo's turn-level advantages.", source="GiGPO: 1", formerly="anchor_weight", ge=0, le=100
    )
    reward_normalization: Literal["identity", "mean", "mean_std", "asym_clip"] = setting(
        "identity",
        "Normalisation of R(τ) before the estimator: none, mean subtracted, also divided by the std, also clipped to "
        "[−1, 3]. The group filter always uses raw rewards.",
        source="RAGEN code: all four",
    )
    reward_grouping: Literal["state", "environment", "batch"] = setting(
        "state", "Trajectories over which rewards are normalised.", source="RAGEN code: all three"
    )
    whiten_advantages: bool = setting(True, "Normalise GAE's advantages over the policy tokens of the batch.")
    reward_position: Literal["turn", "outcome"] = setting(
        "turn", "Place rewards on the last token of their turn, or sum them on the last turn."
    )
    clip_low: float = setting(0.2, "ε_low: lower clip of the ratio at 1 − ε_low.", source="paper: 0.2", gt=0, lt=1)
    clip_high: float = setting(
        0.2, "ε_high: upper clip of the ratio at 1 + ε_high.", source="paper: StarPO 0.2, StarPO-S 0.28", gt=0, le=10
    )
    dual_clip: float | None = setting(None, "Dual clip c for negative advantages; empty = off.", gt=1, le=100)
    value_clip: float | None = setting(
        0.5, "Clip range of the critic's predictions around the old ones; empty = off.", gt=0
    )
    value_coef: float = setting(0.5, "Weight of the critic's loss.", ge=0, le=100)
    aggregation: Aggregation = setting(
        "seq-mean-token-mean", "Loss aggregation over tokens and sequences.", source="paper: Eq. 4, 6"
    )
    entropy_coef: float = setting(0.001, "Weight of the entropy bonus.", source="paper: 0.001", ge=0, le=10)
    kl_coef: float = setting(0.0, "Weight of the KL penalty to the initial policy.", source="paper: StarPO 0.001", ge=0)
    kl_placement: Literal["reward", "loss"] = setting("reward", "KL as a reward penalty or as a loss term.")
    kl_estimator: KLEstimator = setting("k1", "Estimator of the KL divergence.", source="paper: k1")
    group_filter: FilterMethod = setting(
        "none",
        "Groups to learn from: std keeps those with the largest reward std (StarPO-S), std_rev the smallest, range "
        "ranks by best minus worst, snr keeps groups up to a share of the total spread, min_p those above a share of "
        "the largest spread, soft keeps and weights all.",
        source="paper: StarPO-S std; RAGEN-2: snr, min_p, soft",
        formerly="filter",
    )
    group_filter_keep: float = setting(
        1.0,
        "Share of groups that the filter keeps (snr: share of the total spread, min_p: of the largest).",
        source="paper: StarPO-S 0.25; RAGEN-2: snr 0.9",
        formerly="filter_keep",
        gt=0,
        le=1,
    )
    drop_zero_std: bool = setting(True, "Drop groups whose rewards are all equal: they carry no signal.")
    updates_per_rollout: int = setting(
        1,
        "Online-k: updates from one rollout batch.",
        unit="updates",
        source="paper: 1, 2, 5, 10",
        formerly="reuse",
        gt=0,
        le=100,
    )
    tis_cap: float | None = setting(
        None,
        "Truncated importance sampling, for engines whose probabilities differ from the trainer's: weight = "
        "min(π_trainer/π_sampler, cap), and the ratio uses the trainer's own probabilities. Empty = off.",
        source="Yao et al. 2025: 2",
        ge=1,
        le=100,
    )

    @property
    def needs_critic(self) -> bool:
        """Whether the estimator uses a critic."""
        return ESTIMATORS[self.estimator].needs_critic

    @property
    def needs_groups(self) -> bool:
        """Whether the estimator compares the trajectories of a group."""
        return ESTIMATORS[self.estimator].needs_groups


class RewardConfig(Section):
    """Reward terms added to the environment's own reward."""

    format_penalty: float = setting(
        -0.1, "Reward of a turn that breaks the format.", source="paper: −0.1", le=0, ge=-100
    )
    format_rule: Literal["structure", "actions"] = setting(
        "actions",
        "Invalid format, structure: tags missing or no action; actions: also any unknown action.",
        source="paper: structure; its code: actions",
    )
    terms: dict[str, float] = setting(
        {},
        "Weights of further terms, as in facts_true=0.1, repeats=-0.1. Each scores the thought from 0 to 1: "
        "thought_present, facts_true, action_follows, repeats, and those of installed packages.",
        source="paper: finding 6 calls for such rewards",
    )

    @field_validator("terms")
    @classmethod
    def check_terms(cls, value: dict[str, float]) -> dict[str, float]:
        """Registered terms with weights from −100 to 100."""
        for name, weight in value.items():
            thought_rewards.find_term(name)
            if not -100 <= weight <= 100:
                raise ValueError(f"the weight of {name} must be between -100 and 100, not {weight}")
        return value


class CheckpointConfig(Section):
    """Checkpoints on disk."""

    every: int = setting(10, "Iterations between checkpoints (one is always written at the end).", ge=1)
    keep: int = setting(3, "Number of checkpoints to keep, the newest ones.", ge=1, le=1000)


class JournalConfig(Section):
    """Detail of the journal."""

    tokens: Literal["all", "kept", "none"] = setting(
        "all",
        "Trajectories whose tokens are recorded with probabilities, entropies and advantages, for the token view: all, "
        "those of evaluations and those the update learned from (kept), or none.",
    )


class EchoTrapConfig(Section):
    """Detection of a collapse, and the response to it."""

    action: Literal["none", "stop", "rewind"] = setting(
        "none",
        "On collapse: nothing (none), stop with a checkpoint, or rewind to the last checkpoint well before the first "
        "signal and continue with changed settings and other initial states.",
    )
    window: int = setting(10, "Length of the fast average.", unit="iterations", ge=2, le=1000)
    spread_threshold: float = setting(
        0.5,
        "Warn when the in-group reward std falls below this share of its slow average.",
        formerly="sensitivity",
        gt=0,
        lt=1,
    )
    rewind_changes: dict[str, str] = setting(
        {"optimizer.policy_lr": "*0.5"},
        "Settings of rollout, algorithm, rewards and optimizer to change at a rewind, as in optimizer.policy_lr=*0.5, "
        "algorithm.entropy_coef=0.01; * multiplies, once more at each rewind.",
    )
    max_rewinds: int = setting(
        3,
        "Maximum number of rewinds; the next collapse stops the run.",
        unit="rewinds",
        formerly="rewind_limit",
        ge=1,
        le=100,
    )

    @field_validator("rewind_changes", mode="before")
    @classmethod
    def normalize_changes(cls, value: Any) -> Any:
        """Current names of settings; numbers and switches, as YAML parses them, become texts."""
        if not isinstance(value, Mapping):
            return value
        names = former_names.current_names(RunConfig, map(str, value))
        return {
            names[str(name)]: json.dumps(change) if isinstance(change, int | float) else change
            for name, change in value.items()
        }

    def stable_dump(self) -> dict[str, Any]:
        """See Section; the names within `rewind_changes` are the oldest ones, too."""
        changes = {former_names.former_name(RunConfig, name): text for name, text in self.rewind_changes.items()}
        return super().stable_dump() | {"rewind_changes": changes}


class DiagnosticsConfig(Section):
    """Optional measurements, which cost time."""

    gradient_terms_every: int = setting(
        0,
        "Iterations between measurements of the gradient of each policy loss term (task, entropy, KL); 0 = never. Each "
        "costs about one more optimiser step.",
        unit="iterations",
        formerly="gradient_split_every",
        ge=0,
    )


class RunConfig(Section):
    """Everything that determines what a run does. Two runs with the same RunConfig give the same result."""

    kind: Literal["train", "evaluate", "sft"] = setting(
        "train",
        "train: StarPO; evaluate: play the evaluation without learning; sft: the baseline that imitates a solver.",
    )
    name: str = setting("", "Display name of the run; empty = made from environment and algorithm.")
    tags: list[str] = setting([], "Tags to find the run by.")
    iterations: int = setting(
        200,
        "Rollout–update iterations; for sft: optimiser steps.",
        unit="iterations",
        source="paper: 200",
        gt=0,
        le=1_000_000,
    )
    seed: int = setting(0, "Seed of everything random in the run.", ge=0, le=2**32 - 1)
    trackers: list[TrackerName] = setting(
        [],
        "Experiment trackers that also receive metrics, settings and the summary: tensorboard (files in the run's "
        "folder), wandb, mlflow, trackio. Each needs its own library: pip install '.[trackers]'.",
        formerly="sinks",
    )
    environment: EnvironmentConfig = Field(default_factory=EnvironmentConfig)
    policy: PolicyConfig = Field(default_factory=PolicyConfig)
    warmup: WarmupConfig = Field(default_factory=WarmupConfig)
    rollout: RolloutConfig = Field(default_factory=RolloutConfig)
    engine: EngineConfig = Field(default_factory=EngineConfig)
    algorithm: AlgorithmConfig = Field(default_factory=AlgorithmConfig)
    rewards: RewardConfig = Field(default_factory=RewardConfig)
    optimizer: OptimizerConfig = Field(default_factory=OptimizerConfig)
    parallel: ParallelConfig = Field(default_factory=ParallelConfig)
    lora: LoraConfig = Field(default_factory=LoraConfig)
    sft: SftConfig = Field(default_factory=SftConfig)
    evaluation: EvaluationConfig = Field(default_factory=EvaluationConfig)
    hosted: HostedConfig = Field(default_factory=HostedConfig)
    memory: MemoryConfig = Field(default_factory=MemoryConfig)
    checkpoint: CheckpointConfig = Field(default_factory=CheckpointConfig)
    journal: JournalConfig = Field(default_factory=JournalConfig)
    echo_trap: EchoTrapConfig = Field(default_factory=EchoTrapConfig)
    diagnostics: DiagnosticsConfig = Field(default_factory=DiagnosticsConfig)

    @field_validator("name")
    @classmethod
    def check_name(cls, value: str) -> str:
        """At most 120 characters, without surrounding spaces."""
        if len(value) > 120:
            raise ValueError("must be at most 120 characters")
        return value.strip()

    @model_validator(mode="after")
    def check_combinations(self) -> Self:
        """Settings that exclude or require each other."""
        a = self.algorithm
        if a.needs_groups and self.rollout.group_size < 2:
            raise ValueError(
                f"{a.estimator} compares the trajectories of a group: rollout.group_size must be at least 2"
            )
        if a.group_filter != "none" and self.rollout.group_size < 2:
            raise ValueError("a filter on the reward spread needs groups of at least 2: raise rollout.group_size")
        if a.group_filter in ("none", "soft") and a.group_filter_keep < 1:
            raise ValueError(
                f"algorithm.group_filter_keep is below 1 but algorithm.group_filter is {a.group_filter!r}: choose a "
                "filter"
            )
        if a.reward_position == "outcome" and a.estimator in ("bi_level_gae", "gigpo"):
            raise ValueError(f"{a.estimator} assigns credit per turn: algorithm.reward_position must be 'turn'")
        if self.engine.foreign and max(self.rollout.temperature, self.evaluation.temperature) > 2:
            raise ValueError(
                "vLLM samples at temperatures up to 2: lower rollout.temperature and evaluation.temperature, or set "
                "engine.name to 'transformers'"
            )
        if self.engine.foreign and self.rollout.biased and self.rollout.temperature != 1:
            raise ValueError(
                f"vLLM reports no log-probabilities with the temperature but without the token filters applied: with "
                f"{self.rollout.biased[0]} set, rollout.temperature must be 1 or engine.name 'transformers'"
            )
        if self.kind == "evaluate" and self.evaluation.prompts == 0:
            raise ValueError("a run of kind evaluate needs evaluation.prompts of at least 1")
        if self.hosted.url and self.kind != "evaluate":
            raise ValueError("hosted.url names a model that cannot be trained: set kind to evaluate, or leave it empty")
        for name in self.environment.names:
            if name in self.evaluation.suites:
                raise ValueError(f"evaluation.suites names {name}, in which the run is evaluated anyway")
        if self.echo_trap.action == "rewind":
            for times in range(1, self.echo_trap.max_rewinds + 1):
                self.after_rewinds(times)
        return self

    def after_rewinds(self, times: int) -> Self:
        """The settings after that many rewinds; the same object after none.

        Raises:
            ValueError: `echo_trap.rewind_changes` names a setting that does not exist or may not change, or makes the
                settings invalid.
        """
        if times == 0:
            return self
        changed = rewind.with_changes(self, self.echo_trap.rewind_changes, times)
        if changed.algorithm.needs_critic != self.algorithm.needs_critic:
            raise ValueError(
                f"{rewind.FIELD}: algorithm.estimator cannot change between one with a critic and one without"
            )
        return changed.model_copy(update={"echo_trap": self.echo_trap})

    def title(self) -> str:
        """The run's name, or one made from environment, algorithm and model."""
        if self.name:
            return self.name
        starpo = "StarPO-S" if self.algorithm.group_filter != "none" else "StarPO"
        variant = {"train": starpo, "evaluate": "evaluation", "sft": "SFT"}[self.kind]
        model = "pocket policy" if self.policy.model == POCKET else Path(self.policy.model).name
        model = self.hosted.model if self.hosted.url else model
        names = self.environment.names
        environments = " + ".join(names if len(names) < 4 else [*names[:2], f"{len(names) - 2} more"])
        return f"{environments} · {variant} · {model}, seed {self.seed}"

    def digest(self) -> str:
        """Content hash of the configuration, stable across processes, machines and renamed settings."""
        return hashlib.sha256(json.dumps(self.stable_dump(), sort_keys=True).encode()).hexdigest()[:16]
