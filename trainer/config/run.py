"""RunConfig: the settings of a run, shared by launch form, API, YAML files and command line.

Every field carries its help (`description`), and in `json_schema_extra` its `unit` and, if the paper (arXiv 2504.20073)
fixes the default, its `source`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

import envs
from envs.text_roles import TextRole
from trainer.algorithms import thought_rewards
from trainer.config import changes, planned_rewinds, rewind
from trainer.config.algorithm import AlgorithmConfig as AlgorithmConfig
from trainer.config.base import POCKET as POCKET
from trainer.config.base import Section as Section
from trainer.config.base import is_hub_id
from trainer.config.base import setting as setting
from trainer.config.conditions import (
    EVALUATES,
    HOSTED_ANSWERS,
    NOTHING_TRAINED,
    ONLY_TRAINING,
    TRAINS_NOT,
    NoEffect,
    is_none_of,
)
from trainer.config.engine import EngineConfig as EngineConfig
from trainer.config.environment import BUDGETS, DEFAULT_ENVIRONMENT, recommended_budgets
from trainer.config.environment import EnvironmentConfig as EnvironmentConfig
from trainer.config.evaluation import EvaluationConfig as EvaluationConfig
from trainer.config.hosted import HostedConfig as HostedConfig
from trainer.config.imitation import SftConfig as SftConfig
from trainer.config.imitation import WarmupConfig as WarmupConfig
from trainer.config.optimizer import LoraConfig as LoraConfig
from trainer.config.optimizer import OptimizerConfig as OptimizerConfig
from trainer.config.resources import ClusterConfig as ClusterConfig
from trainer.config.resources import MemoryConfig as MemoryConfig
from trainer.config.resources import ParallelConfig as ParallelConfig
from trainer.config.rollout import RolloutConfig as RolloutConfig

LEARNING_BY_SAMPLING = 1.3
"""Ratio of the time of an update's pass to the time of sampling the same tokens, for 135 to 500 million parameters."""
START_SECONDS = 8.0
"""Time of a trainer before its first token: imports and the policy, on two idle cores. Most of a short run."""
TrackerName = Literal["tensorboard", "wandb", "mlflow", "trackio", "opentelemetry"]


class PolicyConfig(Section):
    """The language model that acts."""

    no_effect = (HOSTED_ANSWERS,)

    model: Annotated[str, TextRole.MODEL] = setting(
        POCKET,
        "'pocket' (the built-in one-million-parameter policy), the name of an installed model, as in smollm2-135m, a "
        "hub id, or a folder with a transformers checkpoint. "
        "On a site, also run:SLUG or run:SLUG@ITERATION, a checkpoint of a run of your teams; folders only below those "
        "that its operator lists.",
        source="paper: Qwen/Qwen2.5-0.5B-Instruct",
    )
    revision: Annotated[str, TextRole.PLAIN] = setting(
        "",
        "Commit, tag or branch of a hub id; empty = its main branch as it is when the run starts. A commit makes sure "
        "that the same run loads the same weights next month.",
        added=True,
    )
    dtype: Literal["float32", "bfloat16"] = setting(
        "float32",
        "Precision of the weights in rollouts and updates; bfloat16 halves their memory. Losses, log-probabilities and "
        "advantages are float32 either way.",
    )
    device: Literal["auto", "cpu", "cuda"] = setting("auto", "Device of the policy; auto = a GPU if available.")
    threads: int = setting(
        0,
        "CPU threads; 0 = the fastest number at the start of the run.",
        unit="threads",
        ge=0,
        le=256,
    )

    @field_validator("revision", mode="before")
    @classmethod
    def read_empty(cls, value: object) -> object:
        """Convert an empty value and a commit of digits, which YAML reads as none and as a number."""
        return "" if value is None else str(value) if isinstance(value, int) else value

    @field_validator("revision")
    @classmethod
    def check_revision(cls, value: str, info: ValidationInfo) -> str:
        """Require the name of a commit, tag or branch, of a hub id."""
        value, model = value.strip(), info.data.get("model", "")
        if value and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}", value):
            raise ValueError(f"must be a commit, a tag or a branch, not {value[:200]!r}")
        if value and not is_hub_id(model):
            raise ValueError(f"belongs to a hub id such as Qwen/Qwen3-0.6B: leave it empty for {model!r}")
        return value


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
    terms: Annotated[dict[str, float], TextRole.PLAIN] = setting(
        {},
        "Weights of further terms, as in facts_true=0.1, repeats=-0.1. Each scores a turn, mostly from 0 to 1: "
        "thought_present, facts_true, action_follows, repeats, progress, and terms of installed packages.",
        source="paper: finding 6 calls for such rewards",
    )

    @field_validator("terms")
    @classmethod
    def check_terms(cls, value: dict[str, float]) -> dict[str, float]:
        """Require registered terms with weights from −100 to 100."""
        for name, weight in value.items():
            thought_rewards.find_term(name)
            if not -100 <= weight <= 100:
                raise ValueError(f"the weight of {name} must be between -100 and 100, not {weight}")
        return value


class CheckpointConfig(Section):
    """Checkpoints on disk."""

    no_effect = (NoEffect((EVALUATES,), NOTHING_TRAINED),)

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

    no_effect = (
        NoEffect((TRAINS_NOT,), ONLY_TRAINING),
        NoEffect(
            (is_none_of("echo_trap.action", ("rewind",)),),
            "on a collapse, the action is “{echo_trap.action}”, not “rewind”",
            ("rewind_changes",),
        ),
    )

    action: Literal["none", "stop", "rewind"] = setting(
        "none",
        "On collapse: nothing (none), stop with a checkpoint, or rewind to the last checkpoint well before the first "
        "signal and continue with changed settings and other puzzles, up to three times. stop also ends a run after "
        "five iterations in a row without an update, because no group was kept or no kept group had a signal.",
        source="RAGEN-2: stops after 5 skipped updates",
    )
    rewind_changes: Annotated[dict[str, str], TextRole.PLAIN] = setting(
        {"optimizer.policy_lr": "*0.5"},
        "Settings of rollout, algorithm, rewards and optimizer to change at a rewind, as in optimizer.policy_lr=*0.5, "
        "algorithm.entropy_coef=0.01; * multiplies, once more at each rewind.",
    )

    @field_validator("rewind_changes", mode="before")
    @classmethod
    def normalize_changes(cls, value: Any) -> Any:
        """Convert numbers and switches to texts."""
        return _as_texts(value)


class DiagnosticsConfig(Section):
    """An optional measurement, which costs time."""

    no_effect = (NoEffect((TRAINS_NOT,), ONLY_TRAINING),)

    gradient_terms_every: int = setting(
        0,
        "Iterations between measurements of the gradient of each policy loss term (task, entropy, KL); 0 = never. Each "
        "costs about one more optimiser step.",
        unit="iterations",
        ge=0,
    )


class RunConfig(Section):
    """Everything that determines what a run does. Two runs with the same RunConfig give the same result."""

    no_effect = (NoEffect((EVALUATES,), NOTHING_TRAINED, ("iterations",)),)

    kind: Literal["train", "evaluate", "sft"] = setting(
        "train",
        "train: StarPO; evaluate: play the evaluation without learning; sft: the baseline that imitates a solver.",
    )
    name: Annotated[str, TextRole.PLAIN] = setting(
        "", "Display name of the run; empty = made from environment and algorithm."
    )
    tags: Annotated[list[str], TextRole.PLAIN] = setting([], "Tags to find the run by.")
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
        "folder), wandb, mlflow, trackio; opentelemetry receives dialogues as traces. Each needs its own library: "
        "pip install '.[trackers]'.",
    )
    changes: Annotated[dict[str, str], TextRole.PLAIN] = setting(
        {},
        "Settings that change during training, as in optimizer.policy_lr@40=1e-6: the value from iteration 40 on; "
        "@40/1 means after the first rewind. "
        f"Possible for {', '.join(changes.CHANGEABLE)}.",
        added=True,
    )
    rewinds: Annotated[dict[str, str], TextRole.PLAIN] = setting(
        {},
        "Rewinds by plan, as in 50=40: once iteration 50 is finished, return to the checkpoint of iteration 40 and "
        "continue with other puzzles; 50/1 means iteration 50 after the first rewind.",
        added=True,
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
    cluster: ClusterConfig = Field(default_factory=ClusterConfig)
    lora: LoraConfig = Field(default_factory=LoraConfig)
    sft: SftConfig = Field(default_factory=SftConfig)
    evaluation: EvaluationConfig = Field(default_factory=EvaluationConfig)
    hosted: HostedConfig = Field(default_factory=HostedConfig)
    memory: MemoryConfig = Field(default_factory=MemoryConfig)
    checkpoint: CheckpointConfig = Field(default_factory=CheckpointConfig)
    journal: JournalConfig = Field(default_factory=JournalConfig)
    echo_trap: EchoTrapConfig = Field(default_factory=EchoTrapConfig)
    diagnostics: DiagnosticsConfig = Field(default_factory=DiagnosticsConfig)

    @model_validator(mode="before")
    @classmethod
    def fill_budgets(cls, data: Any) -> Any:
        """Fill missing or empty budgets of the rollout with the environment's recommendation.

        A complete section, as in every stored configuration, is kept, and so is a RolloutConfig object.
        """
        return _with_budgets(data) if isinstance(data, Mapping) else data

    @field_validator("name")
    @classmethod
    def check_name(cls, value: str) -> str:
        """Limit the name to 120 characters, without surrounding spaces."""
        if len(value) > 120:
            raise ValueError("must be at most 120 characters")
        return value.strip()

    @field_validator("changes", "rewinds", mode="before")
    @classmethod
    def normalize_changes(cls, value: Any) -> Any:
        """Convert numbers to texts."""
        return _as_texts(value)

    @model_validator(mode="after")
    def check_combinations(self) -> Self:
        """Check settings that exclude or require each other."""
        self._check_groups()
        self._check_sampling()
        if self.rollout.max_staleness and self.kind == "train":
            self._check_staleness()
        self._check_actors()
        self._check_kind()
        self._check_environments()
        if self.changes or self.rewinds:
            self._check_changes()
        if self.echo_trap.action == "rewind":
            for times in range(1, rewind.MAX_REWINDS + 1):
                self.after_rewinds(times)
        return self

    def _check_groups(self) -> None:
        """Check that groups and rewards are those that the algorithm needs."""
        a = self.algorithm
        if a.needs_groups and self.rollout.group_size < 2:
            raise ValueError(
                f"{a.estimator} compares the trajectories of a group: rollout.group_size must be at least 2"
            )
        if a.dynamic_sampling_rounds > 1 and self.rollout.group_size < 2:
            raise ValueError(
                "dynamic sampling replaces groups whose rewards are all equal: raise rollout.group_size to at least 2, "
                "or set algorithm.dynamic_sampling_rounds to 1"
            )
        if a.group_filter != "none" and self.rollout.group_size < 2:
            raise ValueError("a filter on the reward spread needs groups of at least 2: raise rollout.group_size")
        if a.reward_position == "outcome" and a.estimator in ("bi_level_gae", "gigpo", "mt_grpo", "turn_gae"):
            raise ValueError(f"{a.estimator} assigns credit per turn: algorithm.reward_position must be 'turn'")

    def _check_sampling(self) -> None:
        """Check that the engine can sample with these settings."""
        if self.engine.foreign and max(self.rollout.temperature, self.evaluation.temperature) > 2:
            raise ValueError(
                "vLLM samples at temperatures up to 2: lower rollout.temperature and evaluation.temperature, or set "
                "engine.name to 'transformers'"
            )

    def _check_actors(self) -> None:
        """Check that the engine can sample in rollout actors."""
        if self.engine.name == "server" and self.cluster.rollout_actors:
            raise ValueError(
                "engine.name is 'server': the servers sample already outside of the trainer's process. Set "
                "cluster.rollout_actors to 0, or choose the engine transformers or vllm for the actors"
            )

    def _check_kind(self) -> None:
        """Check that a run of this kind can have these settings."""
        if self.kind == "evaluate" and self.evaluation.prompts == 0:
            raise ValueError("a run of kind evaluate needs evaluation.prompts of at least 1")
        if self.hosted.url and self.kind != "evaluate":
            raise ValueError("hosted.url names a model that cannot be trained: set kind to evaluate, or leave it empty")
        if self.rollout.tool_calls == "native" and not self.hosted.url:
            raise ValueError(
                "rollout.tool_calls is 'native', which only hosted models can do: set kind to evaluate and hosted.url, "
                "or choose 'auto', the format of the model's chat template"
            )

    def _check_changes(self) -> None:
        """Check that a run of this kind can change and rewind exactly, and that all plans are possible."""
        what = "changes" if self.changes else "rewinds"
        if self.kind != "train":
            raise ValueError(f"{what} apply to iterations of StarPO, which a run of kind {self.kind} does not have")
        if self.rollout.max_staleness:
            raise ValueError(
                f"{what} need rollout.max_staleness 0: rollouts that were played ahead would be lost each time, "
                "so that the run could not be repeated"
            )
        for start in changes.starts_of(self.changes):
            try:
                self.at_iteration(start.iteration, start.rewinds)
            except ValueError as error:
                raise ValueError(f"changes cannot be applied at iteration {start.iteration}: {error}") from None
        planned_rewinds.parse(self.rewinds)

    def _check_environments(self) -> None:
        """Check that no environment is named twice for the same purpose."""
        for entry in self.sft.mix:
            if entry.name in self.environment.names:
                raise ValueError(
                    f"sft.mix lists {entry.name}, which the run trains in: its own environments are demonstrated "
                    "anyway, and get the share that sft.mix leaves"
                )
        for name in self.environment.names:
            if name in self.evaluation.suites:
                raise ValueError(f"evaluation.suites names {name}, in which the run is evaluated anyway")

    def _check_staleness(self) -> None:
        """Raise ValueError if rollouts cannot be played during the update, or would not be corrected for it."""
        if not self.cluster.rollout_actors:
            raise ValueError(
                "rollout.max_staleness is above 0, but the trainer's own process plays: set cluster.rollout_actors to "
                "at least 1, or rollout.max_staleness to 0"
            )
        if self.algorithm.tis_cap is None:
            raise ValueError(
                "rollout.max_staleness is above 0: tokens are then sampled by older weights than they update, which "
                "algorithm.tis_cap corrects for. Set it, for example to 2"
            )
        if self.algorithm.dynamic_sampling_rounds > 1:
            raise ValueError(
                "dynamic sampling plays further groups for each iteration, which cannot be known in advance: set "
                "algorithm.dynamic_sampling_rounds to 1 or rollout.max_staleness to 0"
            )

    @property
    def warmup_steps(self) -> int:
        """Steps on demonstrations before the first iteration. They are counted as iterations up to 0."""
        return self.sft.warmup_steps if self.kind == "train" and self.policy.model != POCKET else 0

    @property
    def warmup_share(self) -> float:
        """Estimated share of the warm-up in a run's computation, 0 to 1, before anything is measured.

        Counts sampled and learned trajectories, but not evaluations.
        """
        steps = self.warmup_steps * self.sft.mean_batch * LEARNING_BY_SAMPLING
        passes = 1 + LEARNING_BY_SAMPLING * self.algorithm.passes
        iterations = self.iterations * self.rollout.trajectories * passes
        return steps / (steps + iterations)

    def for_demonstrations(self) -> Self:
        """Return the settings for playing demonstrations: the run's own environments and `sft.mix`."""
        left = 1 - sum(entry.share for entry in self.sft.mix)
        scaled_mix = [entry.model_copy(update={"share": entry.share * left}) for entry in self.environment.mix]
        environment = self.environment.model_copy(update={"mix": [*scaled_mix, *self.sft.mix]})
        return self.model_copy(update={"environment": environment})

    def at_iteration(self, iteration: int, rewinds: int = 0) -> Self:
        """Return the settings that hold at an iteration after `changes`; the same object before the first change.

        Args:
            rewinds: number of rewinds before it.

        Raises:
            ValueError: a change names a setting that may not change, or makes the settings invalid.
        """
        held = changes.held_at(self.changes, iteration, rewinds)
        if not held:
            return self
        changed = changes.with_values(self, {name: value for name, (_, value) in held.items()})
        return changed.model_copy(update={"changes": self.changes, "rewinds": self.rewinds})

    def after_rewinds(self, times: int) -> Self:
        """Return the settings after that many collapses with a rewind; the same object after none.

        Raises:
            ValueError: `echo_trap.rewind_changes` names a setting that does not exist or may not change, or makes the
                settings invalid.
        """
        return self._rewound(times, times, {})

    def settings_at(self, iteration: int, rewinds: int, by_hand: Collection[int]) -> Self:
        """Return the settings that hold at an iteration after `changes` and rewinds.

        Args:
            rewinds: number of rewinds before it.
            by_hand: which of them, from 1, were asked for or planned; the others followed collapses.

        Raises:
            ValueError: as `at_iteration` and `after_rewinds`.
        """

        def collapses(until: int) -> int:
            return until - sum(number <= until for number in by_hand)

        held = changes.held_at(self.changes, iteration, rewinds)
        since = {name: collapses(start.rewinds) for name, (start, _) in held.items()}
        return self.at_iteration(iteration, rewinds)._rewound(rewinds, collapses(rewinds), since)

    def _rewound(self, rewinds: int, collapses: int, since: Mapping[str, int]) -> Self:
        if rewinds == 0:
            return self
        changed = rewind.with_changes(self, self.echo_trap.rewind_changes, rewinds, collapses, since)
        if changed.algorithm.needs_critic != self.algorithm.needs_critic:
            raise ValueError(
                f"{rewind.FIELD}: algorithm.estimator cannot change between one with a critic and one without"
            )
        return changed.model_copy(update={"echo_trap": self.echo_trap})

    def with_prompts(self, *, pocket: bool) -> Self:
        """Replace `auto` in the settings of prompt and response that depend on the policy.

        Args:
            pocket: whether the policy is the pocket policy, or was trained from it.
        """
        rollout, environment = self.rollout, self.environment
        if rollout.format_line == "auto":
            rollout = rollout.model_copy(update={"format_line": "placeholders" if pocket else "example"})
        if environment.cells == "auto":
            environment = environment.model_copy(update={"cells": "compact" if pocket else "spaced"})
        if rollout is self.rollout and environment is self.environment:
            return self
        return self.model_copy(update={"rollout": rollout, "environment": environment})

    @property
    def engine_parts(self) -> int:
        """Number of GPUs over which each engine is split (tensor parallelism)."""
        return max(1, int(self.cluster.rollout_reservation.gpus or 1)) if self.engine.name == "vllm" else 1

    def title(self) -> str:
        """The run's name, or one made from environment, algorithm and model."""
        if self.name:
            return self.name
        variant = {"train": self.algorithm.variant, "evaluate": "evaluation", "sft": "SFT"}[self.kind]
        model = "pocket policy" if self.policy.model == POCKET else Path(self.policy.model).name
        model = self.hosted.model if self.hosted.url else model
        names = list(self.environment.labels.values())
        environments = " + ".join(names if len(names) < 4 else [*names[:2], f"{len(names) - 2} more"])
        return f"{environments} · {variant} · {model}, seed {self.seed}"

    def with_processes(self, count: int) -> Self:
        """Return the same run with this number of learners and rollout actors, a pair on each GPU; see `ClusterConfig`.

        Raises:
            ValueError: the settings do not allow it.
        """
        if count > 1 and self.engine_parts > 1:
            raise ValueError(
                f"cluster.resources splits one engine over {self.engine_parts} GPUs, which learners then cannot share: "
                "leave --processes out, or rollout_gpus out of cluster.resources"
            )
        plays = self.engine.name != "server" and not self.hosted.url
        cluster = self.cluster.with_processes(count, plays=plays)
        return self.model_validate(self.model_dump() | {"cluster": cluster.model_dump()})

    def digest(self) -> str:
        """Content hash of the configuration, stable across processes, machines and added settings."""
        return hashlib.sha256(json.dumps(self.stable_dump(), sort_keys=True).encode()).hexdigest()[:16]


def _as_texts(value: Any) -> Any:
    """Convert the numbers and switches of a mapping, as YAML parses them, to texts."""
    if not isinstance(value, Mapping):
        return value
    return {
        str(name): json.dumps(change) if isinstance(change, int | float) else change for name, change in value.items()
    }


def _with_budgets(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Replace open budgets by the environment's budgets; unchanged if its name is unusable."""
    rollout, environment = data.get("rollout", {}), data.get("environment", {})
    if not isinstance(rollout, Mapping):
        return data
    missing = [name for name in BUDGETS if rollout.get(name) in (None, "")]
    if isinstance(environment, Mapping):
        name, settings = environment.get("name", DEFAULT_ENVIRONMENT), environment.get("settings")
    else:
        name, settings = getattr(environment, "name", None), getattr(environment, "settings", None)
    if not missing or not isinstance(name, str) or name not in envs.names():
        return data
    try:
        recommended = recommended_budgets(name, settings if isinstance(settings, Mapping) else None)
    except ValueError:  # reported when the settings are validated
        recommended = recommended_budgets(name)
    return {**data, "rollout": {**rollout, **{budget: recommended[budget] for budget in missing}}}
