"""Settings without effect given others, with the reason, and notes: for launch form, site and trainer.

A setting without effect is valid: it keeps its value in case the other setting changes back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trainer.algorithms.estimators import ESTIMATORS
from trainer.config.imitation import COURSE_ENVIRONMENTS, SftConfig
from trainer.config.run import POCKET, RunConfig

Data = Mapping[str, Any]
"""A configuration as nested data; values may be unvalidated texts of a form."""


@dataclass(frozen=True)
class _Rule:
    """`settings` (dotted names, or whole sections such as `lora.`) have no effect if `applies`."""

    settings: tuple[str, ...]
    applies: Callable[[Data], bool]
    reason: Callable[[Data], str]


def settings_without_effect(data: Data) -> dict[str, str]:
    """Map each setting that cannot matter to the first reason that applies, by dotted name."""
    reasons: dict[str, str] = {}
    for rule in _RULES:
        if rule.applies(data):
            reason = rule.reason(data)
            for name in _expanded(rule.settings):
                reasons.setdefault(name, reason)
    return reasons


def ignored_changes(config: RunConfig) -> dict[str, str]:
    """Map ignored settings of the group filter, which users change for an ablation, to a note, by dotted name."""
    name = "algorithm.group_filter_keep"
    reason = settings_without_effect(config.model_dump()).get(name)
    algorithm = config.algorithm
    keep = algorithm.group_filter_keep
    if config.kind != "train":
        return {}
    if reason and keep < 1:
        return {name: f"{name} = {keep:g} is ignored: {reason}"}
    if algorithm.group_filter != "none" and not algorithm.filters_groups:
        return {
            name: f"group filter “{algorithm.group_filter}” with {name} = 1 keeps all groups: the same as “none”. "
            "StarPO-S keeps 0.25"
        }
    return {}


def unknown_environments(config: RunConfig) -> str:
    """Note that the pocket policy was not warmed up on an environment of a training run; empty if it was."""
    unknown = config.warmup.unknown_among(config.environment.names)
    if not unknown or config.kind != "train" or config.policy.model != POCKET or config.hosted.url:
        return ""
    courses = [course for course, taught in COURSE_ENVIRONMENTS.items() if unknown[0] in taught]
    advice = (
        f"warmup.course {courses[0]} teaches it"
        if courses
        else (
            "if the environment has a solver, first teach the policy its rules in a run of kind sft and train that "
            "checkpoint (policy.model); or choose a larger language model"
        )
    )
    return (
        f"the pocket policy has never seen {' and '.join(unknown)} and will not learn it from rare successes: {advice}"
    )


def notes(config: RunConfig) -> list[str]:
    """Return notes on a valid configuration that is probably a mistake; sentences without a full stop."""
    return [*ignored_changes(config).values(), *filter(None, [unknown_environments(config)])]


def _expanded(names: tuple[str, ...]) -> list[str]:
    """Replace each section by the names of its settings."""
    result: list[str] = []
    for name in names:
        if not name.endswith("."):
            result.append(name)
            continue
        section = RunConfig.model_fields[name[:-1]].annotation
        result += [f"{name}{field}" for field in section.model_fields]  # type: ignore[union-attr]
    return result


def value_at(data: Data, name: str) -> Any:
    """Return the value of a dotted name; None if it is absent."""
    value: Any = data
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _is(name: str, *values: str) -> Callable[[Data], bool]:
    return lambda data: value_at(data, name) in values


def _is_not(name: str, *values: str) -> Callable[[Data], bool]:
    return lambda data: value_at(data, name) not in values


def _is_empty(name: str) -> Callable[[Data], bool]:
    return lambda data: not value_at(data, name)


def _is_zero(name: str) -> Callable[[Data], bool]:
    """Test for zero; False for a text that is not a number, so that its error is shown."""

    def applies(data: Data) -> bool:
        try:
            return float(value_at(data, name)) == 0
        except (TypeError, ValueError):
            return False

    return applies


def _samples_dynamically(data: Data) -> bool:
    """True if the run samples dynamically; False for a text that is not a number."""
    try:
        return float(value_at(data, "algorithm.dynamic_sampling_rounds")) > 1
    except (TypeError, ValueError):
        return False


def _without_groups(data: Data) -> bool:
    estimator = ESTIMATORS.get(str(value_at(data, "algorithm.estimator")))
    return estimator is not None and not estimator.needs_groups


def _without_critic(data: Data) -> bool:
    estimator = ESTIMATORS.get(str(value_at(data, "algorithm.estimator")))
    return estimator is not None and not estimator.needs_critic


def _text(reason: str) -> Callable[[Data], str]:
    return lambda data: reason


def _using(reason: str, name: str) -> Callable[[Data], str]:
    """Return the reason with the value of a setting at {}."""
    return lambda data: reason.format(value_at(data, name))


_KIND_WORDS = {"train": "training", "evaluate": "an evaluation", "sft": "supervised fine-tuning"}


def _kind(reason: str) -> Callable[[Data], str]:
    """Return the reason with the kind of the run at {}."""
    return lambda data: reason.format(_KIND_WORDS.get(str(value_at(data, "kind")), "this kind of run"))


_RULES = (
    _Rule(("sft.",), _is_not("kind", "sft", "train"), _kind("only training and supervised fine-tuning use it, not {}")),
    _Rule(("sft.warmup_steps",), _is("kind", "sft"), _text("all iterations of this run are steps on demonstrations")),
    _Rule(
        ("sft.",),
        lambda data: _is("kind", "train")(data) and _is("policy.model", POCKET)(data),
        _text("the built-in pocket policy has its own warm-up, and only a run of kind sft shows it demonstrations"),
    ),
    _Rule(
        tuple(f"sft.{name}" for name in SftConfig.model_fields if name != "warmup_steps"),
        lambda data: _is("kind", "train")(data) and _is_zero("sft.warmup_steps")(data),
        _text("sft.warmup_steps is 0: training begins without demonstrations"),
    ),
    _Rule(
        (
            "rollout.groups",
            "rollout.group_size",
            "rollout.temperature",
            "rollout.top_p",
            "rollout.max_staleness",
            "algorithm.",
            "optimizer.policy_lr",
            "optimizer.critic_lr",
            "optimizer.critic_warmup",
            "optimizer.mini_batch_trajectories",
            "echo_trap.",
            "diagnostics.",
        ),
        _is_not("kind", "train"),
        _kind("only training uses it, not {}"),
    ),
    _Rule(
        (
            "iterations",
            "evaluation.every",
            "checkpoint.",
            "optimizer.",
            "lora.",
            "parallel.",
            "cluster.learners",
            "cluster.learner_resources",
        ),
        _is("kind", "evaluate"),
        _text("an evaluation trains nothing"),
    ),
    _Rule(("hosted.",), _is_not("kind", "evaluate"), _text("a hosted model can only be evaluated, not trained")),
    _Rule(
        tuple(f"hosted.{name}" for name in RunConfig.model_fields["hosted"].annotation.model_fields if name != "url"),  # type: ignore[union-attr]
        _is_empty("hosted.url"),
        _text("hosted.url is empty, so no hosted model is used"),
    ),
    _Rule(
        ("engine.", "memory.max_concurrent_trajectories", "policy.", "cluster."),
        lambda data: value_at(data, "kind") == "evaluate" and bool(value_at(data, "hosted.url")),
        _text("the hosted model answers"),
    ),
    _Rule(
        ("engine.urls",),
        _is_not("engine.name", "server"),
        _using("only the engine “server” uses it, not “{}”", "engine.name"),
    ),
    _Rule(
        (
            "engine.gpu_memory_utilization",
            "engine.tensor_parallel",
        ),
        _is_not("engine.name", "vllm"),
        _using("only the engine “vllm” uses it, not “{}”", "engine.name"),
    ),
    _Rule(
        ("memory.max_concurrent_trajectories",),
        _is("engine.name", "vllm", "server"),
        _text("only the engine “transformers” uses it"),
    ),
    _Rule(
        ("cluster.rollout_resources",),
        _is_zero("cluster.rollout_actors"),
        _text("cluster.rollout_actors is 0: the trainer's own process plays"),
    ),
    _Rule(
        ("cluster.learner_resources",),
        _is_zero("cluster.learners"),
        _text("cluster.learners is 0: the trainer's own process learns"),
    ),
    _Rule(
        ("cluster.address",),
        lambda data: _is_zero("cluster.rollout_actors")(data) and _is_zero("cluster.learners")(data),
        _text("neither cluster.rollout_actors nor cluster.learners is above 0: the run needs no cluster"),
    ),
    _Rule(("warmup.",), _is_not("policy.model", POCKET), _text("only the pocket policy is warmed up")),
    _Rule(("lora.alpha",), _is_zero("lora.rank"), _text("lora.rank is 0: no adapters")),
    _Rule(
        (
            "algorithm.gae_lambda",
            "algorithm.whiten_advantages",
            "algorithm.value_clip",
            "algorithm.value_coef",
            "optimizer.critic_lr",
            "optimizer.critic_warmup",
        ),
        _without_critic,
        _using("the estimator “{}” has no critic", "algorithm.estimator"),
    ),
    _Rule(
        ("algorithm.turn_gamma",),
        _is_not("algorithm.estimator", "bi_level_gae", "gigpo"),
        _using("the estimator “{}” does not discount from turn to turn", "algorithm.estimator"),
    ),
    _Rule(
        ("algorithm.gigpo_omega",),
        _is_not("algorithm.estimator", "gigpo"),
        _using("the estimator “{}” gives no turn-level advantages", "algorithm.estimator"),
    ),
    _Rule(
        ("algorithm.normalize_by_std",),
        _is_not("algorithm.estimator", "grpo", "gigpo"),
        _using("the estimator “{}” does not divide by the group’s std", "algorithm.estimator"),
    ),
    _Rule(
        ("algorithm.reward_grouping",),
        _is("algorithm.reward_normalization", "identity"),
        _text("rewards are not normalised"),
    ),
    _Rule(
        ("algorithm.kl_placement", "algorithm.kl_estimator"),
        _is_zero("algorithm.kl_coef"),
        _text("algorithm.kl_coef is 0: no KL penalty"),
    ),
    _Rule(
        ("algorithm.group_filter_keep",),
        _is("algorithm.group_filter", "none", "soft"),
        _using("group filter “{}” keeps all groups", "algorithm.group_filter"),
    ),
    _Rule(
        ("algorithm.drop_zero_std",),
        _samples_dynamically,
        _text("dynamic sampling replaces groups whose rewards are all equal"),
    ),
    _Rule(
        ("algorithm.filter_loss_scaling",),
        lambda data: (
            _is("algorithm.group_filter", "none", "soft")(data)
            and (not value_at(data, "algorithm.drop_zero_std") or _samples_dynamically(data))
        ),
        _using("group filter “{}” keeps all groups", "algorithm.group_filter"),
    ),
    _Rule(
        ("algorithm.stop_after_skipped_updates",),
        lambda data: (
            _without_groups(data)
            and _is_not("algorithm.group_filter", "top_p_linear", "top_p_softmax")(data)
            and not _samples_dynamically(data)
        ),
        _using("with the group filter “{}” and this estimator every iteration has an update", "algorithm.group_filter"),
    ),
    _Rule(
        ("diagnostics.turn_thoughts_every",),
        _is_zero("diagnostics.turn_thoughts"),
        _text("diagnostics.turn_thoughts is 0: no thoughts of later turns are compared"),
    ),
    _Rule(
        ("echo_trap.rewind_changes", "echo_trap.max_rewinds"),
        _is_not("echo_trap.action", "rewind"),
        _using("on a collapse, the action is “{}”, not “rewind”", "echo_trap.action"),
    ),
    _Rule(
        tuple(f"evaluation.{name}" for name in ("every", "temperature", "seed", "samples_per_prompt", "suites")),
        _is_zero("evaluation.prompts"),
        _text("evaluation.prompts is 0: no evaluation"),
    ),
)
