"""Versioned weights: a copy of the sampling weights, to be loaded into another copy of the same policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from transformers import PreTrainedModel

from trainer.policy import lora_adapters


@dataclass(frozen=True)
class VersionedWeights:
    """Weights of a policy after a number of updates, on the CPU and independent of the copied model.

    Attributes:
        version: number of updates since the learners of this attempt began.
        tensors: tensors by name; only the adapters' for a policy with adapters, because its base does not change. Tied
            weights are present once.
    """

    version: int
    tensors: Mapping[str, Tensor]

    @classmethod
    def of(cls, model: PreTrainedModel, version: int) -> Self:
        """Copy the model's weights."""
        if lora_adapters.layers(model):
            return cls(version, {name: value.cpu() for name, value in lora_adapters.state(model).items()})
        tensors: dict[str, Tensor] = {}
        copied: set[tuple[int, torch.Size]] = set()
        for name, value in model.state_dict().items():
            storage = value.data_ptr(), value.shape
            if storage not in copied:
                copied.add(storage)
                tensors[name] = value.detach().to("cpu", copy=True)
        return cls(version, tensors)

    @property
    def size(self) -> int:
        """Total size in bytes."""
        return sum(value.numel() * value.element_size() for value in self.tensors.values())

    @torch.no_grad()
    def load_into(self, model: PreTrainedModel) -> None:
        """Overwrite the weights of another copy of the policy.

        Raises:
            ModelError: the model's adapters do not match these weights.
            KeyError: the model lacks a weight with one of the names.
        """
        if lora_adapters.layers(model):
            lora_adapters.load_state(model, dict(self.tensors))
            return
        present = model.state_dict()
        for name, value in self.tensors.items():
            present[name].copy_(value)
