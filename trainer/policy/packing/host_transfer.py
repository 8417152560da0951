"""Transfers to a device that do not make the host wait."""

from __future__ import annotations

import torch
from torch import Tensor


def to_device(values: Tensor, device: torch.device) -> Tensor:
    """Copy the tensor to a device; to a GPU through page-locked memory, so that work already queued there continues.

    The allocator reuses that memory only after the copy.
    """
    if device.type == "cuda" and values.device.type == "cpu":
        return values.pin_memory().to(device, non_blocking=True)
    return values.to(device)
