"""Warnings about valid configurations."""

from __future__ import annotations

from trainer.config.notes import notes
from trainer.config.run import RunConfig
from webapp.runs.launch.fields import with_labels
from webapp.runs.queue.capacity import Capacity

SMALL_STEP = 2
"""A step with this many times fewer trajectories than a mini-batch deserves a warning."""


def warnings(config: RunConfig, capacity: Capacity, queue: str) -> list[str]:
    """Return warnings about surprising but valid settings, with the labels of the form."""
    texts = map(with_labels, _warnings(config, capacity, queue))
    return [text[:1].upper() + text[1:] for text in texts]


def _warnings(config: RunConfig, capacity: Capacity, queue: str) -> list[str]:
    """Return the warnings, with dotted names of settings."""
    rollout, algorithm = config.rollout, config.algorithm
    messages = [f"{note}." for note in notes(config)]
    served = bool(capacity.workers.get(queue))  # for an unserved queue, the text on capacity explains it
    if served and config.policy.device == "cuda" and all(device.startswith("CPU") for device in capacity.devices):
        messages.append("policy.device is cuda, but no running worker has a GPU: the run would fail.")
    if config.kind != "train":
        return messages
    if rollout.temperature < 1:
        messages.append(
            f"Rollouts sample at temperature {rollout.temperature:g}: attempts of a group become similar, and "
            "groups with equal rewards give no gradient. The paper samples at 1."
        )
    reachable = rollout.max_turns * rollout.max_actions_per_turn
    if rollout.max_actions > reachable:
        messages.append(
            f"rollout.max_actions is {rollout.max_actions}, but {rollout.max_turns} turns of at most "
            f"{rollout.max_actions_per_turn} actions allow only {reachable}."
        )
    kept = max(1, round(rollout.groups * algorithm.group_filter_keep)) * rollout.group_size
    if algorithm.group_filter == "std" and kept <= config.optimizer.mini_batch_trajectories / SMALL_STEP:
        messages.append(
            f"The filter keeps about {kept} attempts per iteration, far fewer than an optimiser step uses "
            f"(optimizer.mini_batch_trajectories is {config.optimizer.mini_batch_trajectories}): there will be one "
            "smaller step."
        )
    if config.evaluation.prompts == 0:
        messages.append("There is no evaluation: the result cannot be compared with other runs.")
    if config.checkpoint.every > config.iterations:
        messages.append("No checkpoint is written before the end: an interrupted run starts over.")
    if config.lora.rank and config.optimizer.policy_lr < 1e-5:
        messages.append("Adapters (LoRA) need learning rates about ten times as high as full fine-tuning.")
    return messages
