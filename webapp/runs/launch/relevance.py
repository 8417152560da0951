"""Settings that the launch form leaves out because they have no effect here, with the reason."""

from __future__ import annotations

from trainer.config.no_effect import Data, settings_without_effect, value_at
from trainer.config.run import POCKET
from webapp.runs.launch.fields import names, with_labels
from webapp.runs.queue import device_classes
from webapp.runs.queue.capacity import Capacity

NO_GPU = "no worker with a GPU is online"


def has_gpus(current: Capacity) -> bool:
    """Return True if a worker with a GPU is online."""
    return bool(current.workers.get(device_classes.GPU))


def reasons(data: Data, *, gpus: bool) -> dict[str, str]:
    """Return {dotted name: reason}: settings without effect, and settings for devices and models that are not used.

    Args:
        data: the configuration of the form, possibly invalid.
        gpus: True if a worker with a GPU is online.
    """
    result: dict[str, str] = {}
    if value_at(data, "policy.model") == POCKET:
        result |= dict.fromkeys(_section("lora."), "Rarely needed: the pocket policy is small.")
    if not gpus:
        result |= dict.fromkeys(_section("parallel."), f"For runs on several GPUs, and {NO_GPU}.")
    without = settings_without_effect(data)
    return result | {name: with_labels(f"No effect: {reason}.") for name, reason in without.items()}


def _section(prefix: str) -> list[str]:
    return [name for name in names() if name.startswith(prefix)]
