"""RunConfig: one pydantic model that is the form, the API, the YAML and the command line. No training code lives here.

Every field carries its help (`description`), and in `json_schema_extra` its `unit` and its `source` where the paper
(arXiv 2504.20073) fixes it, so that pages and documents can say where a default comes from.
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
from trainer.config import rewind
from trainer.config.adaptation import LoraConfig as LoraConfig
from trainer.config.adaptation import SftConfig as SftConfig
from trainer.config.base import Section as Section
from trainer.config.base import setting as setting
from trainer.config.engine import EngineConfig as EngineConfig
from trainer.config.environment import BUDGETS
from trainer.config.environment import EnvironmentConfig as EnvironmentConfig
from trainer.config.evaluation import EvaluationConfig as EvaluationConfig
from trainer.config.hosted import HostedConfig as HostedConfig
from trainer.config.memory import MemoryConfig as MemoryConfig
from trainer.config.optimizer import OptimizerConfig as OptimizerConfig
from trainer.config.parallel import ParallelConfig as ParallelConfig

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
        "Precision of the weights that play and are computed with; bfloat16 halves their memory. Losses, "
        "log-probabilities and advantages are float32 either way.",
    )
    device: Literal["auto", "cpu", "cuda"] = setting("auto", "Where it runs; auto takes a GPU if there is one.")
    threads: int = setting(0, "CPU threads; 0 takes all cores.", unit="threads", ge=0, le=256)


class WarmupConfig(Section):
    """Supervised fine-tuning of the pocket policy on a solver's demonstrations, before any RL.

    The defaults are the settings of the checkpoint that ships with the project; anything else is built once and cached.
    """

    lesson_steps: int = setting(900, "Optimiser steps on single states.", unit="steps", ge=0, le=100_000)
    steps: int = setting(450, "Optimiser steps on whole, good demonstrations.", unit="steps", ge=0, le=100_000)
    refine_steps: int = setting(
        700, "More of those after a warm restart of the learning rate.", unit="steps", ge=0, le=100_000
    )
    noisy_steps: int = setting(
        80, "Further steps on demonstrations whose actions are partly random.", unit="steps", ge=0, le=100_000
    )
    noise: float = setting(0.6, "Share of random actions in those.", ge=0, le=1)
    batch: int = setting(
        32, "Demonstrated trajectories per step (twice as many single states).", unit="trajectories", gt=0, le=4096
    )
    learning_rate: float = setting(2e-3, "Peak learning rate of the warm-up (cosine).", gt=0, le=1)
    seed: int = setting(0, "Seed of the weights and of the demonstrations.", ge=0)


class RolloutConfig(Section):
    """How the agent plays before each update."""

    groups: int = setting(8, "P: initial states per iteration.", unit="groups", source="paper: 8", gt=0, le=4096)
    group_size: int = setting(
        16, "N: trajectories from each initial state.", unit="trajectories", source="paper: 16", gt=0, le=4096
    )
    max_turns: int = setting(
        5, "Turns a trajectory may take.", unit="turns", source="paper: 5", gt=0, le=BUDGETS["max_turns"]
    )
    max_actions_per_turn: int = setting(
        5, "Actions executed per turn.", unit="actions", source="paper: 5", gt=0, le=BUDGETS["max_actions_per_turn"]
    )
    max_actions: int = setting(
        10, "Actions a trajectory may take in all.", unit="actions", source="paper: 10", gt=0, le=BUDGETS["max_actions"]
    )
    max_response_tokens: int = setting(
        96, "Longest response of one turn; longer ones are cut.", unit="tokens", gt=0, le=16_384
    )
    temperature: float = setting(1.0, "Sampling temperature.", source="paper: 1.0", gt=0, le=10)
    top_p: float = setting(
        1.0, "Sample among the likeliest tokens that hold this mass; below 1 biases the importance ratio.", gt=0, le=1
    )
    top_k: int = setting(0, "Sample among the k likeliest tokens; 0 = all. Above 0 biases the importance ratio.", ge=0)
    min_p: float = setting(
        0.0,
        "Sample among tokens at least this share as likely as the likeliest; above 0 biases the importance ratio.",
        ge=0,
        lt=1,
    )
    think: bool = setting(True, "Ask for a thought before the answer.", source="paper: on")
    context_turns: int = setting(
        0,
        "Turns that the prompt shows, the present one included, after the task; 0 = all. Rewards, turn numbers and "
        "budgets stay those of the whole dialogue.",
        unit="turns",
        source="RAGEN code: max_context_window",
        ge=0,
        le=100,
    )

    @property
    def trajectories(self) -> int:
        return self.groups * self.group_size

    @property
    def biased(self) -> list[str]:
        """Settings in force that keep tokens from being drawn, so that they bias the importance ratio."""
        found = {"top_p": self.top_p < 1, "top_k": self.top_k > 0, "min_p": self.min_p > 0}
        return [f"rollout.{name}" for name, on in found.items() if on]


if TYPE_CHECKING:
    EstimatorName = str
    Aggregation = str
    KLEstimator = str
else:
    EstimatorName = Literal[tuple(ESTIMATORS)]
    Aggregation = Literal[tuple(AGGREGATIONS)]
    KLEstimator = Literal[tuple(KL_ESTIMATORS)]


class AlgorithmConfig(Section):
    """StarPO and StarPO-S, setting by setting."""

    estimator: EstimatorName = setting(
        "gae",
        "Advantages: gae (PPO with a critic), bi_level_gae (turns first, then tokens), grpo (group-normalised reward), "
        "rloo (against the others of the group), reinforce_plus_plus and its baseline form, gigpo (GRPO plus "
        "credit for each turn against turns from the same state).",
        source="paper: gae and grpo; its code: bi_level_gae",
    )
    normalize_by_std: bool = setting(True, "GRPO and GiGPO divide by the group's std (off: Dr. GRPO).")
    gamma: float = setting(1.0, "Discount γ.", source="paper: 1.0", ge=0, le=1)
    lam: float = setting(1.0, "GAE's λ.", source="paper: 1.0", ge=0, le=1)
    turn_gamma: float = setting(
        0.95, "Discount from turn to turn, for bi_level_gae and gigpo.", source="RAGEN code: 0.95", ge=0, le=1
    )
    anchor_weight: float = setting(1.0, "Weight ω of the turn-level part of gigpo.", source="GiGPO: 1", ge=0, le=100)
    reward_normalization: Literal["identity", "mean", "mean_std", "asym_clip"] = setting(
        "identity",
        "What is done to R(τ) before the estimator: nothing, mean off, also divided by the std, also clipped to "
        "[−1, 3]. The filter always sees raw rewards.",
        source="RAGEN code: all four",
    )
    reward_grouping: Literal["state", "environment", "batch"] = setting(
        "state", "Which trajectories that normalisation compares.", source="RAGEN code: all three"
    )
    whiten_advantages: bool = setting(True, "Normalise GAE's advantages over the batch's policy tokens.")
    reward_position: Literal["turn", "outcome"] = setting(
        "turn", "Rewards at the last token of their turn, or summed on the last turn."
    )
    clip_low: float = setting(0.2, "ε_low: the ratio may fall to 1 − ε_low.", source="paper: 0.2", gt=0, lt=1)
    clip_high: float = setting(
        0.2, "ε_high: the ratio may rise to 1 + ε_high.", source="paper: StarPO 0.2, StarPO-S 0.28", gt=0, le=10
    )
    dual_clip: float | None = setting(None, "Dual clip c for negative advantages; empty = off.", gt=1, le=100)
    value_clip: float | None = setting(0.5, "Clip range of the critic's change; empty = off.", gt=0)
    value_coef: float = setting(0.5, "Weight of the critic's loss.", ge=0, le=100)
    aggregation: Aggregation = setting(
        "seq-mean-token-mean", "How token losses become one number.", source="paper: Eq. 4, 6"
    )
    entropy_coef: float = setting(0.001, "Entropy bonus.", source="paper: 0.001", ge=0, le=10)
    kl_coef: float = setting(0.0, "Weight of the KL penalty to the initial policy.", source="paper: StarPO 0.001", ge=0)
    kl_placement: Literal["reward", "loss"] = setting("reward", "KL as a reward penalty or as a loss term.")
    kl_estimator: KLEstimator = setting("k1", "Estimator of the KL divergence.", source="paper: k1")
    filter: FilterMethod = setting(
        "none",
        "Which groups the update learns from: std keeps those with the widest rewards (StarPO-S), std_rev the "
        "narrowest, range by distance of best and worst, snr until a share of all spread is held, min_p by a share of "
        "the widest, soft keeps all and weighs them.",
        source="paper: StarPO-S std; RAGEN-2: snr, min_p, soft",
    )
    filter_keep: float = setting(
        1.0,
        "Share of groups kept by the filter (snr: of all spread, min_p: of the widest).",
        source="paper: StarPO-S 0.25; RAGEN-2: snr 0.9",
        gt=0,
        le=1,
    )
    drop_zero_std: bool = setting(True, "Leave out groups whose rewards are all equal: no signal.")
    reuse: int = setting(
        1, "Online-k: updates from one rollout batch.", unit="updates", source="paper: 1, 2, 5, 10", gt=0, le=100
    )
    tis_cap: float | None = setting(
        None,
        "Truncated importance sampling, for a sampler whose probabilities are not quite the trainer's: the ratio is "
        "taken to the trainer's own, and each token weighs as much as trainer over sampler, at most this; empty = off.",
        source="Yao et al. 2025: 2",
        ge=1,
        le=100,
    )

    @property
    def needs_critic(self) -> bool:
        return ESTIMATORS[self.estimator].needs_critic

    @property
    def needs_groups(self) -> bool:
        return ESTIMATORS[self.estimator].needs_groups


class RewardConfig(Section):
    """Named reward terms beside the environment's own."""

    format_penalty: float = setting(
        -0.1, "Added to a turn that breaks the format.", source="paper: −0.1", le=0, ge=-100
    )
    format_rule: Literal["structure", "actions"] = setting(
        "actions",
        "structure: tags missing or no action; actions: also any unknown action.",
        source="paper: structure; its code: actions",
    )
    terms: dict[str, float] = setting(
        {},
        "Weights of further terms, as in facts_true=0.1, repeats=-0.1. Each looks at the thought and scores from 0 to "
        "1: thought_present, facts_true, action_follows, repeats, and those of installed packages.",
        source="paper: finding 6 asks for such rewards",
    )

    @field_validator("terms")
    @classmethod
    def known_terms(cls, value: dict[str, float]) -> dict[str, float]:
        for name, weight in value.items():
            thought_rewards.find_term(name)
            if not -100 <= weight <= 100:
                raise ValueError(f"the weight of {name} must be between -100 and 100, not {weight}")
        return value


class CheckpointConfig(Section):
    """What is kept on disk."""

    every: int = setting(10, "Iterations between checkpoints (one is always written at the end).", ge=1)
    keep: int = setting(3, "Newest checkpoints kept.", ge=1, le=1000)


class JournalConfig(Section):
    """How much of a run is written down."""

    tokens: Literal["all", "kept", "none"] = setting(
        "all",
        "Whose tokens are kept with their probabilities, entropies and advantages, for the token view: of all "
        "trajectories, of evaluations and of what the update learned from (kept), or of none.",
    )


class EchoTrapConfig(Section):
    """What to do when a collapse announces itself."""

    action: Literal["none", "stop", "rewind"] = setting(
        "none",
        "On collapse: nothing, stop with a checkpoint, or rewind: return to the last checkpoint from well before the "
        "first sign and go on from there with other settings and other initial states.",
    )
    window: int = setting(10, "Iterations of the fast average.", unit="iterations", ge=2, le=1000)
    sensitivity: float = setting(
        0.5, "Watch when the in-group reward std falls below this share of its slow average.", gt=0, lt=1
    )
    rewind_changes: dict[str, str] = setting(
        {"optimizer.policy_lr": "*0.5"},
        "Settings of rollout, algorithm, rewards and optimizer that change at a rewind, as in "
        "optimizer.policy_lr=*0.5, algorithm.entropy_coef=0.01; * multiplies, again at each rewind.",
    )
    rewind_limit: int = setting(3, "Rewinds of one run; the next collapse stops it.", unit="rewinds", ge=1, le=100)

    @field_validator("rewind_changes", mode="before")
    @classmethod
    def as_texts(cls, value: Any) -> Any:
        """Numbers and switches, as YAML reads them, are as good as texts."""
        if not isinstance(value, Mapping):
            return value
        return {name: json.dumps(given) if isinstance(given, int | float) else given for name, given in value.items()}


class DiagnosticsConfig(Section):
    """Further measurements, which cost time."""

    gradient_split_every: int = setting(
        0,
        "Measure the gradient of each term of the policy's loss (task, entropy, KL) every so many iterations; 0 = "
        "never. It costs about as much as one optimiser step more.",
        unit="iterations",
        ge=0,
    )


class RunConfig(Section):
    """Everything that decides what a run does. Two runs with the same RunConfig do the same."""

    kind: Literal["train", "evaluate", "sft"] = setting(
        "train",
        "train: StarPO; evaluate: the policy plays the evaluation and nothing is learned; sft: the baseline that "
        "imitates a solver.",
    )
    name: str = setting("", "Name of the run, for people; empty = made from environment and algorithm.")
    tags: list[str] = setting([], "Words to find the run by.")
    iterations: int = setting(
        200,
        "Rollout–update rounds; for sft: steps of the optimiser.",
        unit="iterations",
        source="paper: 200",
        gt=0,
        le=1_000_000,
    )
    seed: int = setting(0, "Seed of everything random in the run.", ge=0, le=2**32 - 1)
    sinks: list[TrackerName] = setting(
        [],
        "Other places that metrics, settings and the summary go to: tensorboard (files in the run's folder), wandb, "
        "mlflow, trackio. Each needs its own library: pip install '.[sinks]'.",
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
    def printable(cls, value: str) -> str:
        if len(value) > 120:
            raise ValueError("must be at most 120 characters")
        return value.strip()

    @model_validator(mode="after")
    def consistent(self) -> Self:
        a = self.algorithm
        if a.needs_groups and self.rollout.group_size < 2:
            raise ValueError(
                f"{a.estimator} compares the trajectories of a group: rollout.group_size must be at least 2"
            )
        if a.filter != "none" and self.rollout.group_size < 2:
            raise ValueError("a filter by reward spread needs groups of at least 2: raise rollout.group_size")
        if a.filter in ("none", "soft") and a.filter_keep < 1:
            raise ValueError(f"algorithm.filter_keep is below 1 but algorithm.filter is {a.filter!r}: choose a filter")
        if a.reward_position == "outcome" and a.estimator in ("bi_level_gae", "gigpo"):
            raise ValueError(f"{a.estimator} gives credit turn by turn: algorithm.reward_position must be 'turn'")
        if self.engine.foreign and max(self.rollout.temperature, self.evaluation.temperature) > 2:
            raise ValueError(
                "vLLM draws at temperatures up to 2: lower rollout.temperature and evaluation.temperature, or choose "
                "engine.name 'transformers'"
            )
        if self.engine.foreign and self.rollout.biased and self.rollout.temperature != 1:
            raise ValueError(
                f"vLLM tells no log-probabilities of a distribution that is tempered but not filtered: with "
                f"{self.rollout.biased[0]} rollout.temperature must be 1, or engine.name 'transformers'"
            )
        if self.kind == "evaluate" and self.evaluation.prompts == 0:
            raise ValueError("a run of kind evaluate needs evaluation.prompts of at least 1")
        if self.hosted.url and self.kind != "evaluate":
            raise ValueError("hosted.url names a model that cannot be trained: set kind to evaluate, or leave it empty")
        for name in self.environment.names:
            if name in self.evaluation.suites:
                raise ValueError(f"evaluation.suites names {name}, in which the run is examined anyway")
        if self.echo_trap.action == "rewind":
            for times in range(1, self.echo_trap.rewind_limit + 1):
                rewind.settings_after_rewind(self, times)
        return self

    def title(self) -> str:
        """The run's name, or one made from what it does."""
        if self.name:
            return self.name
        starpo = "StarPO-S" if self.algorithm.filter != "none" else "StarPO"
        variant = {"train": starpo, "evaluate": "evaluation", "sft": "SFT"}[self.kind]
        model = "pocket policy" if self.policy.model == POCKET else Path(self.policy.model).name
        model = self.hosted.model if self.hosted.url else model
        names = self.environment.names
        where = " + ".join(names if len(names) < 4 else [*names[:2], f"{len(names) - 2} more"])
        return f"{where} · {variant} · {model}, seed {self.seed}"

    def digest(self) -> str:
        """Content hash of the configuration, stable across processes and machines."""
        return hashlib.sha256(json.dumps(self.model_dump(), sort_keys=True).encode()).hexdigest()[:16]
