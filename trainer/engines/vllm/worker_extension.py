"""What a vLLM server's worker learns for us: taking weights from a folder, and saying which ones it holds.

Named to vLLM by --worker-extension-cls; its methods are called through the server's route /collective_rpc.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import Tensor


class WeightLoader:
    """Mixed into vLLM's worker. vLLM wants no name here that the worker has itself."""

    held_version = ""

    def take_weights(self, folder: str, version: str) -> dict[str, str]:
        """Load all weights of a folder with safetensors; from now on these are `version`."""
        self.held_version = ""
        worker: Any = self
        worker.reload_weights(weights_iterator=_weights(Path(folder)))
        self.held_version = version
        return self.held()

    def held(self) -> dict[str, str]:
        """Which weights are in force ("" = those the server started with), and how log-probabilities are meant."""
        worker: Any = self
        return {"version": self.held_version, "logprobs_mode": str(worker.model_config.logprobs_mode)}


def _weights(folder: Path) -> Iterator[tuple[str, Tensor]]:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise FileNotFoundError(f"{folder} holds no *.safetensors: do learner and server see the same folder?")
    for file in files:
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 it is no mapping
                yield name, tensors.get_tensor(name)
