"""Worker extension of vLLM's processes: loads weights from a folder and reports their version.

Passed to vLLM as its worker extension class; servers call its methods through their route /collective_rpc, engines that
are split over several processes through `collective_rpc`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import Tensor


class WeightLoader:
    """Mixed into vLLM's worker, whose attribute names must not be used here."""

    held_version = ""

    def take_weights(self, folder: str, version: str) -> dict[str, str]:
        """Load all safetensors files of a folder as `version`."""
        self.held_version = ""
        worker: Any = self
        worker.reload_weights(weights_iterator=_weights(Path(folder)))
        self.held_version = version
        return self.held()

    def held(self) -> dict[str, str]:
        """Return the version of the current weights ("" = the server's initial weights), and vLLM's logprobs_mode."""
        worker: Any = self
        return {"version": self.held_version, "logprobs_mode": str(worker.model_config.logprobs_mode)}


def _weights(folder: Path) -> Iterator[tuple[str, Tensor]]:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise FileNotFoundError(f"{folder} contains no *.safetensors: do learner and server see the same folder?")
    for file in files:
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 not a mapping
                yield name, tensors.get_tensor(name)
