"""Computations on a chunk of logits: log-probabilities and entropies, and the gradient of both.

PyTorch's own operations read or write all logits a dozen times, in fp32. Compiled, they become two kernels on a GPU
that read logits in the output layer's type.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_log = logging.getLogger(__name__)


def score_in_place(logits: Tensor, ids: Tensor, temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return (n,) log of the normaliser, (n,) log-probabilities and (n,) entropies of (n, V) logits, in fp32.

    Fp32 logits are overwritten.
    """
    scaled = logits.float().div_(temperature)
    normalizer = scaled.logsumexp(-1)
    logprobs = scaled.gather(-1, ids[:, None])[:, 0] - normalizer
    scaled.sub_(normalizer[:, None])
    return normalizer, logprobs, -(scaled.exp() * scaled).sum(-1)


def gradient_in_place(
    logits: Tensor,
    ids: Tensor,
    temperature: float,
    normalizer: Tensor,
    entropies: Tensor,
    of_logprobs: Tensor,
    of_entropies: Tensor,
) -> Tensor:
    """Return the (n, V) gradient of the logits in their type; fp32 logits are overwritten.

    With z the tempered logits, p = softmax(z) and H the entropy: ∂ log p_a / ∂z = 1_a − p and ∂H / ∂z = −p (log p + H).

    Args:
        normalizer, entropies: (n,) results of the forward pass.
        of_logprobs, of_entropies: (n,) gradients of the forward pass's results.
    """
    logs = logits.float().div_(temperature).sub_(normalizer[:, None])
    odds = logs.exp()
    logs.add_(entropies[:, None]).mul_(of_entropies[:, None]).add_(of_logprobs[:, None])
    odds.mul_(logs).neg_()
    odds.scatter_add_(-1, ids[:, None], of_logprobs[:, None].to(odds.dtype))
    return odds.div_(temperature).to(logits.dtype)


def fusible_score(logits: Tensor, ids: Tensor, temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """`score_in_place` in operations that a compiler can fuse."""
    scaled = logits.float() / temperature
    normalizer = scaled.logsumexp(-1)
    logs = scaled - normalizer[:, None]
    return normalizer, logs.gather(-1, ids[:, None])[:, 0], -(logs.exp() * logs).sum(-1)


def fusible_gradient(
    logits: Tensor,
    ids: Tensor,
    temperature: float,
    normalizer: Tensor,
    entropies: Tensor,
    of_logprobs: Tensor,
    of_entropies: Tensor,
) -> Tensor:
    """`gradient_in_place` in operations that a compiler can fuse."""
    logs = logits.float() / temperature - normalizer[:, None]
    odds = -logs.exp() * ((logs + entropies[:, None]) * of_entropies[:, None] + of_logprobs[:, None])
    chosen = torch.arange(logits.shape[-1], device=logits.device) == ids[:, None]
    odds = torch.where(chosen, odds + of_logprobs[:, None], odds)
    return (odds / temperature).to(logits.dtype)


class CompiledOnGpu:
    """A function that is compiled at its first call with tensors on a GPU, and runs uncompiled elsewhere.

    If compilation fails (no compiler, no Triton), this is logged once as a warning, and the usual form is used.

    Args:
        usual: the function on other devices.
        fusible: the same function in operations that a compiler can fuse.
        devices: kinds of devices for which it is compiled.
    """

    def __init__(
        self, usual: Callable[..., Any], fusible: Callable[..., Any], devices: frozenset[str] = frozenset({"cuda"})
    ) -> None:
        self.usual, self.fusible, self.devices = usual, fusible, devices
        self.failure = ""
        self._compiled: Callable[..., Any] | None = None  # importing the compiler takes seconds

    def is_compiled(self, device: torch.device) -> bool:
        """True if the compiled form is used on a device."""
        return not self.failure and device.type in self.devices

    def __call__(self, logits: Tensor, *arguments: Any) -> Any:
        if not self.is_compiled(logits.device):
            return self.usual(logits, *arguments)
        try:
            if self._compiled is None:
                self._compiled = torch.compile(self.fusible)
            return self._compiled(logits, *arguments)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # noqa: BLE001, compilers fail in many ways
            self.failure = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            _log.warning("logits are computed kernel by kernel, more slowly: %s", self.failure)
            return self.usual(logits, *arguments)


score = CompiledOnGpu(score_in_place, fusible_score)
gradient = CompiledOnGpu(gradient_in_place, fusible_gradient)
