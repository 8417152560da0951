"""How a learner works with the other processes of its run, and the learner of a run of one process, which has none.

Several processes stand in parallel.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from torch import Tensor, nn

if TYPE_CHECKING:
    from trainer.config.run import RunConfig

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class LearnerSpec:
    """What another process needs to know to have the same policy and learner.

    `saved` is the iteration of the checkpoint that is gone on from; `reference` where the initial policy comes from,
    if one is kept.
    """

    config: RunConfig
    source: Path | str
    reference: Path | str | None
    folder: Path
    saved: int | None


class ProcessGroup(Protocol):
    """The processes of a run, seen from one of them."""

    rank: int
    size: int
    sharded: bool
    """Whether each process holds only a part of the weights: then all must compute at the same time."""

    def together(self, name: str, *arguments: Any) -> AbstractContextManager[None]:
        """Have the others call the same method of their learner, with the same arguments, while the block runs."""

    def add_up(self, *tensors: Tensor) -> None:
        """Put the sum over all processes into each tensor (on the CPU)."""

    def total(self, numbers: dict[str, float]) -> dict[str, float]:
        """The sums over all processes of numbers by name; a name need not be known to all."""

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Put the sum over all processes into each parameter's gradient, unless that has happened already."""

    def prepare(self, recipe: LearnerSpec) -> None:
        """Have the others make the same policy and learner as this process now does."""

    def guard(self, says: Callable[[str], None]) -> None:
        """From now on another process's end ends this one too, even if it hangs: first `says` hears the reason."""

    def close(self) -> None:
        """The run is over, for all."""


class SingleProcess:
    """A run of one process."""

    rank, size, sharded = 0, 1, False

    @contextmanager
    def together(self, name: str, *arguments: Any) -> Iterator[None]:
        yield

    def add_up(self, *tensors: Tensor) -> None:
        """There is nothing to add."""

    def total(self, numbers: dict[str, float]) -> dict[str, float]:
        return numbers

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """There is nothing to add."""

    def prepare(self, recipe: LearnerSpec) -> None:
        """There is nobody to prepare."""

    def guard(self, says: Callable[[str], None]) -> None:
        """There is nobody to lose."""

    def close(self) -> None:
        """There is nobody to tell."""


class _HasGroup(Protocol):
    team: ProcessGroup


S = TypeVar("S", bound=_HasGroup)


def collective(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """A learner's method that all processes of the run go through side by side. It takes positional arguments only."""

    @wraps(method)
    def called(self: S, /, *arguments: P.args, **named: P.kwargs) -> R:
        with self.team.together(method.__name__, *arguments):
            return method(self, *arguments, **named)

    return cast(Callable[Concatenate[S, P], R], called)
