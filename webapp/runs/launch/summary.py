"""A configuration in other words: what differs, what deserves a warning, the same as YAML and as a call of the API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import yaml

from trainer.config.files import ordered_dump
from trainer.config.run import RunConfig
from webapp.runs.actions import SchedulingOptions
from webapp.runs.launch.form import Setting
from webapp.runs.models import Run
from webapp.runs.queue.capacity import Capacity


def differences(settings: Sequence[Setting]) -> list[Setting]:
    """The settings whose values differ from what the form began with."""
    return [setting for setting in settings if setting.differs]


def changes(config: RunConfig, base: RunConfig) -> dict[str, Any]:
    """Dotted name → value of every setting that differs from the base, as `--set` and the API's overrides take them."""
    return _changes(config.model_dump(mode="json"), base.model_dump(mode="json"), RunConfig.model_fields, "")


def _changes(
    now: Mapping[str, Any], before: Mapping[str, Any], fields: Mapping[str, Any], prefix: str
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, field in fields.items():
        inner = getattr(field.annotation, "model_fields", None)
        if inner is not None:
            found |= _changes(now[name], before[name], inner, f"{prefix}{name}.")
        elif now[name] != before[name]:
            found[prefix + name] = now[name]
    return found


def as_yaml(config: RunConfig) -> str:
    """The whole configuration, as the trainer's command line takes it."""
    return _yaml_of(json.dumps(config.model_dump(mode="json")))


@lru_cache(maxsize=32)
def _yaml_of(told: str) -> str:
    """Of a configuration in JSON. Most of those that are looked at are presets, and YAML takes its time to write."""
    return yaml.safe_dump(ordered_dump(json.loads(told)), sort_keys=False, allow_unicode=True)


def as_curl(
    address: str,
    config: RunConfig,
    preset: str,
    base: RunConfig,
    *,
    visibility: str,
    team: str = "",
    asked: SchedulingOptions | None = None,
) -> str:
    """The call of the API that launches the same. The token stays in the environment: it is nobody else's business."""
    told: dict[str, Any] = {"preset": preset}
    if overrides := changes(config, base):
        told["overrides"] = overrides
    if team:
        told["team"] = team
    if visibility != "team":
        told["visibility"] = visibility
    if asked is not None:
        told |= {"queue": asked.queue} if asked.queue else {}
        told |= {} if asked.gpus is None else {"gpus": asked.gpus}
        told |= {} if asked.priority == Run.Priority.NORMAL else {"priority": asked.priority.name.lower()}
    body = json.dumps(told, indent=2, ensure_ascii=False).replace("'", "'\\''")
    return (
        f"curl -X POST {address} \\\n"
        '  -H "Authorization: Bearer $ECHOSCOPE_TOKEN" \\\n'
        "  -H 'Content-Type: application/json' \\\n"
        f"  -d '{body}'"
    )


def warnings(config: RunConfig, capacity: Capacity, queue: str) -> list[str]:
    """What people may not expect of this configuration; nothing here forbids it."""
    rollout, algorithm, found = config.rollout, config.algorithm, []
    served = bool(capacity.workers.get(queue))  # where nobody serves it, the words about the queue say so
    if served and config.policy.device == "cuda" and all(device.startswith("CPU") for device in capacity.devices):
        found.append("policy.device is cuda, but no worker that is running now has a GPU: the run would fail there.")
    if config.kind != "train":
        return found
    if rollout.biased:
        found.append(
            f"{' and '.join(rollout.biased)} keeps some tokens from being drawn: the importance ratio is biased, "
            "because the update counts all tokens as possible."
        )
    if rollout.temperature < 1:
        found.append(
            f"Rollouts sample at temperature {rollout.temperature:g}: trajectories of a group become alike, and groups "
            "whose rewards are all equal teach nothing. The paper samples at 1."
        )
    reachable = rollout.max_turns * rollout.max_actions_per_turn
    if rollout.max_actions > reachable:
        found.append(
            f"rollout.max_actions is {rollout.max_actions}, but {rollout.max_turns} turns of at most "
            f"{rollout.max_actions_per_turn} actions make {reachable}."
        )
    kept = max(1, round(rollout.groups * algorithm.group_filter_keep)) * rollout.group_size
    if algorithm.group_filter == "std" and kept < config.optimizer.mini_batch_trajectories:
        found.append(
            f"The filter keeps about {kept} trajectories of an iteration, fewer than one optimiser step takes "
            f"(optimizer.mini_batch_trajectories is {config.optimizer.mini_batch_trajectories}): there will be one "
            "smaller step."
        )
    if config.evaluation.prompts == 0:
        found.append("There is no evaluation: the run's result cannot be compared with that of others.")
    if config.checkpoint.every > config.iterations:
        found.append("No checkpoint is written before the end: a run that is interrupted begins again.")
    if config.lora.rank and config.optimizer.policy_lr < 1e-5:
        found.append("Adapters (LoRA) want learning rates about ten times as high as whole weights do.")
    return found
