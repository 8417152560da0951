"""Process-group interface used by the learner, and its single-process implementation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from torch import Tensor, nn

from trainer.policy.load import ModelError

if TYPE_CHECKING:
    from trainer.config.run import RunConfig

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class LearnerSpec:
    """Specification from which another rank makes the same policy and learner.

    `saved`: iteration of the checkpoint to resume from; `reference`: source of the initial policy, if one is kept.
    """

    config: RunConfig
    source: Path | str
    reference: Path | str | None
    folder: Path
    saved: int | None


def check_sharding(config: RunConfig) -> None:
    """Raises ModelError where the settings cannot be sharded over several processes."""
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
    """The processes of a run, seen from one of them.

    Attributes:
        rank, size: rank of this process, number of processes.
        sharded: whether weights are sharded, so that forward and backward passes are collective.
    """

    rank: int
    size: int
    sharded: bool

    def on_all_ranks(self, name: str, *arguments: Any) -> AbstractContextManager[None]:
        """Call a method of the other ranks' learners, with these arguments, while the block runs."""

    def all_reduce(self, *tensors: Tensor) -> None:
        """Sum each tensor (on the CPU) over all ranks, in place."""

    def sum_by_name(self, numbers: dict[str, float]) -> dict[str, float]:
        """Sum numbers by name over all ranks; names may differ between ranks."""

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Sum each parameter's gradient over all ranks, unless already done."""

    def prepare(self, spec: LearnerSpec) -> None:
        """Make the other ranks create the same policy and learner."""

    def guard(self, report: Callable[[str], None]) -> None:
        """From now on, end this process after `report(reason)` when another rank ends, even if it hangs."""

    def check(self) -> None:
        """Raises RankLostError if another rank has ended."""

    def close(self) -> None:
        """End the run on all ranks."""


class SingleProcess:
    """A run of one process."""

    rank, size, sharded = 0, 1, False

    @contextmanager
    def on_all_ranks(self, name: str, *arguments: Any) -> Iterator[None]:
        yield

    def all_reduce(self, *tensors: Tensor) -> None:
        """No-op."""

    def sum_by_name(self, numbers: dict[str, float]) -> dict[str, float]:
        return numbers

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """No-op."""

    def prepare(self, spec: LearnerSpec) -> None:
        """No-op."""

    def guard(self, report: Callable[[str], None]) -> None:
        """No-op."""

    def check(self) -> None:
        """No-op."""

    def close(self) -> None:
        """No-op."""


class _HasGroup(Protocol):
    group: ProcessGroup


S = TypeVar("S", bound=_HasGroup)


def collective(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Decorator of a learner's method that all ranks execute collectively; its arguments are positional only."""

    @wraps(method)
    def wrapper(self: S, /, *arguments: P.args, **named: P.kwargs) -> R:
        with self.group.on_all_ranks(method.__name__, *arguments):
            return method(self, *arguments, **named)

    return cast(Callable[Concatenate[S, P], R], wrapper)
