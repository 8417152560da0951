"""Usage of a worker's machine over the last minutes: processor, memory, GPUs and disk."""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Sequence
from typing import Any

import psutil
from django.conf import settings

from trainer.memory import gpu_usage
from webapp.worker.hardware import Memory

SAMPLES = 40
"""Ten minutes at the heartbeat's interval of fifteen seconds."""


class UsageHistory:
    """Usage shares, oldest first. A heartbeat carries all of them, so that pages need no other table."""

    def __init__(self) -> None:
        self._shares: dict[str, deque[float]] = {name: deque(maxlen=SAMPLES) for name in ("cpu", "memory", "gpu")}
        psutil.cpu_percent()  # the first call has nothing to compare with

    def sample(self, memory: Sequence[Memory]) -> dict[str, Any]:
        """Return the history with the present usage.

        Args:
            memory: the machine's memory, measured now, before the memory of its GPUs.
        """
        now = {"cpu": psutil.cpu_percent() / 100}
        if memory and memory[0]["name"] == "Machine" and memory[0]["total"]:
            now["memory"] = 1 - memory[0]["free"] / memory[0]["total"]
        if gpus := gpu_usage.visible_gpus():
            now["gpu"] = sum(share for share, _ in gpus) / len(gpus)
        for name, share in now.items():
            self._shares[name].append(round(min(1.0, max(0.0, share)), 3))
        usage: dict[str, Any] = {name: list(shares) for name, shares in self._shares.items() if shares}
        try:
            disk = shutil.disk_usage(settings.ECHOSCOPE_DATA_DIR)
        except OSError:
            return usage
        return usage | {"disk_free": disk.free, "disk_total": disk.total}
