"""Process-group interface used by the learner, and its single-process implementation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from torch import Tensor, nn

from trainer.policy.load import ModelError

if TYPE_CHECKING:
    from trainer.config.run import RunConfig


def check_sharding(config: RunConfig) -> None:
    """Raise ModelError if the settings cannot be sharded over several processes."""
    if config.parallel.sharding == "full" and config.lora.rank:
        raise ModelError(
            "parallel.sharding is full but lora.rank is above 0: frozen weights cannot be sharded. Set "
            "parallel.sharding to none (every process then holds the base), or lora.rank to 0"
        )
    if config.parallel.sharding == "full" and config.optimizer.name in ("adafactor", "adamw_8bit"):
        raise ModelError(
            f"optimizer.name {config.optimizer.name} keeps moments that cannot be sharded: with parallel.sharding full "
            "choose adamw, adamw_fused, muon or sgd"
        )


class ProcessGroup(Protocol):
    """The learners of a run from the view of one learner. All call the same methods in the same order.

    Attributes:
        rank, size: rank of this learner, number of learners.
        sharded: whether weights are sharded, so that forward and backward passes are collective.
    """

    rank: int
    size: int
    sharded: bool

    def all_reduce(self, *tensors: Tensor) -> None:
        """Sum each tensor (on the CPU) over all ranks, in place."""

    def sum_by_name(self, numbers: dict[str, float]) -> dict[str, float]:
        """Sum numbers by name over all ranks; names may differ between ranks."""

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Sum each parameter's gradient over all ranks, unless already done."""

    def close(self) -> None:
        """Leave the group."""


class SingleProcess:
    """A run with one learner."""

    rank, size, sharded = 0, 1, False

    def all_reduce(self, *tensors: Tensor) -> None:
        """No-op."""

    def sum_by_name(self, numbers: dict[str, float]) -> dict[str, float]:
        return numbers

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """No-op."""

    def close(self) -> None:
        """No-op."""
