"""Policies and weights as objects that Ray passes between nodes: files as bytes, tensors as arrays without copies."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from trainer.config.run import PolicyConfig
from trainer.policy import shapes
from trainer.policy.load import Policy, load
from trainer.policy.shapes import ModelShape
from trainer.policy.weights import VersionedWeights


@dataclass(frozen=True)
class PolicyFiles:
    """Checkpoint folder of a policy, weights and tokenizer: nodes need no shared disk.

    Attributes:
        source: folder or hub id from which the policy was loaded.
        files: content by name.
    """

    source: str
    files: Mapping[str, bytes]

    @classmethod
    def of(cls, policy: Policy) -> Self:
        """Return the files of a loaded policy without adapters."""
        with tempfile.TemporaryDirectory() as folder:
            policy.model.save_pretrained(folder)
            policy.tokenizer.save_pretrained(folder)
            paths = sorted(path for path in Path(folder).iterdir() if path.is_file())
            return cls(policy.model.name_or_path or "", {path.name: path.read_bytes() for path in paths})

    @property
    def size(self) -> int:
        """Total size in bytes."""
        return sum(map(len, self.files.values()))

    @property
    def shape(self) -> ModelShape | None:
        """Shape of the model; None if its config.json does not contain it."""
        return shapes.read(json.loads(self.files.get("config.json", b"{}")))

    def load(self, config: PolicyConfig) -> Policy:
        """Load the policy in this process, on its device. Raises ModelError like `trainer.policy.load.load`."""
        with tempfile.TemporaryDirectory() as folder:
            for name, content in self.files.items():
                (Path(folder) / name).write_bytes(content)
            policy = load(folder, config)
        policy.model.name_or_path = self.source
        return policy


@dataclass(frozen=True)
class PackedWeights:
    """Versioned weights as arrays of bytes, which processes of one node read from its object store without copies."""

    version: int
    arrays: Mapping[str, tuple[Any, torch.dtype, tuple[int, ...]]]

    @classmethod
    def of(cls, weights: VersionedWeights) -> Self:
        """Pack versioned weights."""
        return cls(
            weights.version,
            {
                name: (value.contiguous().view(-1).view(torch.uint8).numpy(), value.dtype, tuple(value.shape))
                for name, value in weights.tensors.items()
            },
        )

    def unpack(self) -> VersionedWeights:
        """Return the weights as tensors in the object store, which must not be written to."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            tensors = {
                name: torch.from_numpy(np.asarray(array)).view(dtype).view(shape)
                for name, (array, dtype, shape) in self.arrays.items()
            }
        return VersionedWeights(self.version, tensors)
