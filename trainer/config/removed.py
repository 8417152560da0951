"""Removed settings: the replacement of each, and the conversion of configurations stored with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trainer import timeouts
from trainer.algorithms.kl_estimators import KL_PENALTIES
from trainer.algorithms.reward_normalizations import NORMALIZATIONS
from trainer.config.conditions import Data
from trainer.config.dotted import value_at
from trainer.config.engine import CPU_CACHE_VARIABLE, EAGER_VARIABLE, WEIGHTS_VARIABLE
from trainer.config.hosted import CONTINUE
from trainer.config.resources import HALVES, RAY_ADDRESS_VARIABLE
from trainer.config.run import RunConfig
from trainer.config.update_variants import VARIANTS_VARIABLE


def _limit(timeout: timeouts.Timeout) -> str:
    return f"set the environment variable {timeout.variable}"


_RECIPE = "the recipe of a warm-up belongs to its course (COURSES in trainer/imitation/courses.py)"
_PRICES = ("prompt_price_per_million", "completion_price_per_million")
REMOVED: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "warmup.copying_steps",
            "warmup.single_state_steps",
            "warmup.steps",
            "warmup.refine_steps",
            "warmup.noisy_steps",
            "warmup.noise",
            "warmup.batch",
            "warmup.learning_rate",
            "warmup.seed",
        ),
        _RECIPE,
    ),
    "environment.step_timeout": _limit(timeouts.ENVIRONMENT_STEP),
    "environment.wording": "rollout.format_line=paper sets the paper's prompts, with their wording of the task",
    "environment.start_timeout": _limit(timeouts.ENVIRONMENT_START),
    "engine.server_timeout": _limit(timeouts.ENGINE_SERVER),
    **dict.fromkeys(
        ("rollout.top_k", "rollout.top_p", "rollout.min_p"),
        "rollouts exclude no token, which would bias the importance ratio; hosted.extra_body sets filters of a model",
    ),
    "rollout.stop_at_answer": "responses end after </answer>, except with rollout.format_line=placeholders",
    "rollout.template_date": "chat templates always write 26 July 2024",
    "engine.weights_dir": f"set the environment variable {WEIGHTS_VARIABLE}",
    "engine.cpu_kv_cache_gib": f"set vLLM's environment variable {CPU_CACHE_VARIABLE}",
    "engine.enforce_eager": f"set the environment variable {EAGER_VARIABLE} to 1",
    "engine.sleep_between_rollouts": "a vLLM engine always gives the GPU's memory to the learner between rollouts",
    "engine.max_num_seqs": "vLLM generates up to 256 sequences at once",
    **dict.fromkeys(
        (
            "optimizer.packing",
            "optimizer.prefix_sharing",
            "optimizer.packed_attention",
            "optimizer.compile_layers",
            "optimizer.master_weights",
            "optimizer.implementation",
        ),
        f"the trainer chooses; the environment variable {VARIANTS_VARIABLE} forces a variant",
    ),
    "algorithm.gigpo_omega": "turn-level advantages of gigpo have the weight ω of 1",
    **dict.fromkeys(
        ("algorithm.kl_placement", "algorithm.kl_estimator"),
        "algorithm.kl_penalty names both, as in reward_k1 or loss_k3",
    ),
    "algorithm.reward_grouping": "algorithm.reward_normalization says it, as in environment_mean_std or batch_mean",
    "algorithm.stop_after_skipped_updates": "echo_trap.action=stop ends a run after five skipped updates in a row",
    "algorithm.whiten_advantages": "advantages of GAE are always normalised over the policy tokens of a batch",
    "algorithm.value_clip": "predictions of the critic are clipped to 0.5 around the old ones",
    "engine.tensor_parallel": "a vLLM engine is split over the GPUs of cluster.resources, as in rollout_gpus=2",
    "optimizer.beta1": "Adam's β₁ and the momentum of sgd are 0.9",
    "optimizer.beta2": "Adam's β₂ is 0.999",
    "optimizer.lr_min_ratio": "optimizer.lr_schedule names where a decay ends: at 0, or cosine_to_fifth",
    "lora.dropout": "adapters are trained without dropout",
    "lora.targets": "all linear layers get adapters",
    "hosted.timeout": _limit(timeouts.HOSTED_REQUEST),
    "hosted.max_backoff": _limit(timeouts.HOSTED_WAIT),
    "hosted.prefill": "set continue_final_message=true in hosted.extra_body",
    "hosted.retries": "a request is repeated up to six times",
    **dict.fromkeys(
        ("hosted.unsupported_params", "hosted.max_tokens_param"),
        "what an endpoint rejects is no longer sent to it",
    ),
    **dict.fromkeys(
        (f"hosted.{name}" for name in _PRICES),
        "hosted.price_per_million lists the prices of prompt and completion tokens",
    ),
    "memory.max_concurrent_trajectories": "the trainer plays as many trajectories at once as fit into memory",
    "parallel.timeout": _limit(timeouts.LEARNER_EXCHANGE),
    **{
        f"cluster.{role}_{kind}": f"set cluster.resources, as in {role}_cpus=2, {role}_gpus=1"
        for role in ("rollout", "learner")
        for kind in ("cpus", "gpus", "resources")
    },
    "cluster.shared_gpus": "each learner shares its GPU with rollout_gpus=0.5, learner_gpus=0.5 in cluster.resources",
    "cluster.address": f"set the environment variable {RAY_ADDRESS_VARIABLE}",
    "evaluation.reference_play": "the solver and random actions always play the fixed puzzles, for comparison",
    "evaluation.seed": "all runs are evaluated on the same puzzles; evaluation.prompts adds further ones",
    "sft.max_solution_length": "a demonstrated solution has at most 100 actions",
    "sft.thoughts": "the pocket policy is shown thoughts in the words of its course, other models the environment's",
    "sft.validation_demonstrations": "a batch of demonstrations, and at most 100, is held out for validation",
    "sft.only_successes": "demonstrations that do not succeed are left out",
    "echo_trap.max_rewinds": "a run rewinds up to three times",
    "echo_trap.window": "the fast averages of the detector cover 10 iterations",
    "echo_trap.spread_threshold": "the reward std of groups is lost below half of its slow average",
    "diagnostics.turn_thoughts": "8 thoughts of any turn are compared",
    "diagnostics.turn_thoughts_every": "thoughts of any turn are compared in the first and every fifth iteration",
    "cluster.start_timeout": _limit(timeouts.CLUSTER_START),
    "cluster.actor_timeout": _limit(timeouts.CLUSTER_ACTOR),
}
"""Dotted name → clause about the setting's replacement."""


def removal_text(name: str) -> str | None:
    """Return the error message for the name of a removed setting; None for any other name."""
    return f"was removed: {REMOVED[name]}" if name in REMOVED else None


def without_removed(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored configuration without settings that were removed later.

    Values that other settings hold now move there: a run with a limit of its cost, for instance, needs its prices.
    """
    result: dict[str, Any] = {
        section: {name: inner for name, inner in value.items() if f"{section}.{name}" not in REMOVED}
        if isinstance(value, Mapping)
        else value
        for section, value in stored.items()
    }
    for name, convert in _MOVED.items():
        section, _, setting = name.partition(".")
        settings = result.get(section, {})
        if isinstance(settings, Mapping) and (value := convert(stored)) is not None:
            result[section] = {**settings, setting: value}
    return result


def _mapping(stored: Data, name: str) -> Mapping[str, Any]:
    value = value_at(stored, name)
    return value if isinstance(value, Mapping) else {}


def _prices(stored: Data) -> list[float] | None:
    prices = [value_at(stored, f"hosted.{name}") or 0.0 for name in _PRICES]
    return prices if any(prices) else None


def _schedule(stored: Data) -> str | None:
    shape, end = value_at(stored, "optimizer.lr_schedule"), value_at(stored, "optimizer.lr_min_ratio")
    return "cosine_to_fifth" if (shape, end) == ("cosine", 0.2) else None


def _normalization(stored: Data) -> str | None:
    method = value_at(stored, "algorithm.reward_normalization")
    named = f"{value_at(stored, 'algorithm.reward_grouping')}_{method}"
    return named if named in NORMALIZATIONS else None


def _kl_penalty(stored: Data) -> str | None:
    placement, estimator = (value_at(stored, f"algorithm.kl_{part}") for part in ("placement", "estimator"))
    named = f"{placement or 'reward'}_{estimator or 'k1'}"
    return named if (placement or estimator) and named in KL_PENALTIES else None


def _rewind_changes(stored: Data) -> dict[str, Any] | None:
    changes = _mapping(stored, "echo_trap.rewind_changes")
    kept = {name: change for name, change in changes.items() if name not in REMOVED}
    return kept if len(kept) < len(changes) else None


def _resources(stored: Data) -> dict[str, Any] | None:
    resources = {
        f"{role}_{kind}": amount
        for role in ("rollout", "learner")
        for kind, amount in _mapping(stored, f"cluster.{role}_resources").items()
    }
    parts = value_at(stored, "engine.tensor_parallel")
    if isinstance(parts, int) and parts > 1:
        resources["rollout_gpus"] = parts
    if value_at(stored, "cluster.shared_gpus"):
        resources = {**_mapping(stored, "cluster.resources"), **resources, **HALVES}
    return resources or None


def _format_line(stored: Data) -> str | None:
    line = value_at(stored, "rollout.format_line") or "auto"
    return "paper" if (value_at(stored, "environment.wording"), line) == ("paper", "auto") else None


def _extra_body(stored: Data) -> dict[str, Any] | None:
    return {CONTINUE: True, **_mapping(stored, "hosted.extra_body")} if value_at(stored, "hosted.prefill") else None


_MOVED: Mapping[str, Callable[[Data], Any]] = {
    "algorithm.kl_penalty": _kl_penalty,
    "algorithm.reward_normalization": _normalization,
    "cluster.resources": _resources,
    "echo_trap.rewind_changes": _rewind_changes,
    "hosted.extra_body": _extra_body,
    "hosted.price_per_million": _prices,
    "optimizer.lr_schedule": _schedule,
    "rollout.format_line": _format_line,
}
"""Setting → function of a stored configuration: the value that it takes over from removed settings, or None."""


def stored_config(stored: Mapping[str, Any]) -> RunConfig:
    """Load the configuration of a recorded run, whatever version of this program stored it.

    Raises:
        pydantic.ValidationError: other settings do not fit this version.
    """
    return RunConfig.model_validate(without_removed(stored))
