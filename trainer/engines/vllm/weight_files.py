"""Weights in transit to vLLM's worker processes: safetensors files that the workers load."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

EXTENSION = "trainer.engines.vllm.worker_extension.WeightLoader"
"""Class that vLLM mixes into its workers, so that they can load the files."""


def write_weights(weights: Mapping[str, Tensor], folder: Path) -> None:
    """Save every tensor under each of its names: vLLM keeps the old output layer if a tied one is not named.

    Args:
        folder: created by this function.
    Raises:
        FileExistsError: the folder exists.
    """
    folder.mkdir(parents=True)
    seen: set[int] = set()
    tensors = {}
    for name, tensor in weights.items():
        tensors[name] = tensor.detach().clone() if tensor.data_ptr() in seen else tensor.detach().contiguous()
        seen.add(tensor.data_ptr())
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
