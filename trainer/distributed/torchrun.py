"""A run of several processes, as torchrun starts them: one leads, tells the journal and saves; the others follow it.

The main process alone runs the loop of starpo.py. Where there is work to share it tells the others, and all do it side
by side: playing (parallel_play.py) and learning. What the others do is parallel_follower.py.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from trainer.config.run import RunConfig
from trainer.distributed import control_channel
from trainer.distributed.control_channel import ControlChannel, RankLostError
from trainer.distributed.group import LearnerSpec, ProcessGroup, SingleProcess
from trainer.policy.load import ModelError, pick_device

_BUCKET = 2**24  # numbers of gradients that travel at once: 64 MiB in float32
_SHUTDOWN_TIMEOUT = 20.0  # seconds the main process is given to end by itself after another one is gone
_PR_SET_PDEATHSIG = 1


def rank_and_world_size() -> tuple[int, int]:
    """Which process of a run this is, of how many, as torchrun says; (0, 1) without it."""
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def is_worker_rank() -> bool:
    """Whether this process is led by another one."""
    return rank_and_world_size()[0] > 0


def join_group(config: RunConfig) -> ProcessGroup:
    """Meet the other processes of the run. Without any: a team of one.

    Raises:
        ModelError: the settings ask for what several processes cannot do.
        LostError: the others do not come.
    """
    if rank_and_world_size()[1] == 1:
        return SingleProcess()
    _die_with_parent()
    if config.parallel.sharding == "full" and config.lora.rank:
        raise ModelError(
            "parallel.sharding is full but lora.rank is above 0: frozen weights are not split here. Set "
            "parallel.sharding to none (every process then holds the base), or lora.rank to 0"
        )
    if config.parallel.sharding == "full" and config.optimizer.name in ("adafactor", "adamw_8bit"):
        raise ModelError(
            f"optimizer.name {config.optimizer.name} keeps moments that cannot be split: with parallel.sharding full "
            "choose adamw, adamw_fused, muon or sgd"
        )
    _check_devices(config)
    patience = config.parallel.timeout
    from accelerate import PartialState  # type: ignore[import-untyped]

    waits = timedelta(seconds=patience)
    state = PartialState(cpu=pick_device(config.policy.device).type == "cpu", timeout=waits)
    cpu = dist.group.WORLD if state.backend == "gloo" else dist.new_group(backend="gloo", timeout=waits)
    rank, size = state.process_index, state.num_processes

    def share(given: Any) -> Any:
        told = [given]
        dist.broadcast_object_list(told, src=0, group=cpu)
        return told[0]

    lines = control_channel.connect(rank, size, share, patience)
    return TorchrunGroup(rank, size, lines, cpu)


def _check_devices(config: RunConfig) -> None:
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if pick_device(config.policy.device).type == "cuda" and here > torch.cuda.device_count():
        raise ModelError(
            f"{here} processes share {torch.cuda.device_count()} GPU(s) of this machine: start at most one for each "
            "(--nproc-per-node), or set policy.device to cpu"
        )


def _die_with_parent() -> None:
    """torchrun gives each process a session of its own: killed, it would leave them behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


class TorchrunGroup:
    """The processes of a run, seen from one of them. See `trainer.distributed.group.ProcessGroup`.

    Args:
        lines: to each of the others, from the main process; to the main process, from each of the others.
        cpu: the group that adds up tensors on the CPU.
    """

    def __init__(self, rank: int, size: int, lines: list[ControlChannel], cpu: Any) -> None:
        self.rank, self.size, self.lines, self.cpu, self.sharded = rank, size, lines, cpu, False
        self._busy = self._broken = False
        self._ended = threading.Event()

    # -- from the main process to the others ------------------------------------------------------------------------

    def tell(self, *order: Any) -> None:
        """Give every other process an order. Raises LostError when one is gone."""
        for number in range(1, self.size):
            self.order(number, *order)

    def order(self, number: int, *order: Any) -> None:
        """Give one other process an order. Raises LostError when it is gone."""
        try:
            self.lines[number - 1].send(order)
        except OSError as error:
            raise self.lost(number) from error

    def answers(self, number: int, seconds: float = 0.0) -> Iterator[tuple[Any, ...]]:
        """What another process has said and is not yet heard, waiting this long for the first of it.

        Raises:
            LostError: it is gone, or it failed.
        """
        wire = self.lines[number - 1]
        try:
            while wire.poll(seconds):
                answer = wire.recv()
                if answer[0] == "failed":
                    raise RankLostError(f"process {number} of {self.size} failed: {answer[1]}")
                yield answer
                seconds = 0.0
        except (EOFError, OSError) as error:
            raise self.lost(number) from error

    def lost(self, number: int) -> RankLostError:
        """The error that says that a process is gone."""
        self._broken = True
        return RankLostError(
            f"process {number} of {self.size} is gone: killed, out of memory, or its machine is away. Its own output "
            "may say why. Checkpoints are kept: start the run again with --resume"
        )

    @contextmanager
    def together(self, name: str, *arguments: Any) -> Iterator[None]:
        if self.rank or self._busy:
            yield
            return
        self.tell("call", name, arguments)
        self._busy = True
        try:
            yield
        except RuntimeError as error:
            if reason := self._reason():
                raise reason from error
            raise
        finally:
            self._busy = False

    def _reason(self) -> RankLostError | None:
        """Why processes that compute together may have failed together: one of the others did."""
        for number in range(1, self.size):
            try:
                for _ in self.answers(number, 1.0):
                    pass
            except RankLostError as error:
                return error
        return None

    def prepare(self, recipe: LearnerSpec) -> None:
        """Have the others make the same policy and learner as this process now does."""
        self.follow(recipe)
        self.tell("prepare", recipe)

    def follow(self, recipe: LearnerSpec) -> None:
        """What this process must know before it makes them."""
        self.sharded = recipe.config.parallel.sharding == "full"

    def guard(self, says: Callable[[str], None]) -> None:
        """From now on another process's end ends this one too, even if it hangs: first `says` hears the reason."""

        def gone(number: int) -> None:
            if not self._ended.wait(
                _SHUTDOWN_TIMEOUT
            ):  # most often the main thread has noticed too and is on its way out
                says(str(self.lost(number)))
                os._exit(1)

        threading.Thread(
            target=control_channel.monitor, args=(self.lines, gone, self._ended), name="guard", daemon=True
        ).start()

    def close(self) -> None:
        """The run is over, for all."""
        self._ended.set()
        for wire in self.lines:
            try:
                if self.rank == 0:
                    wire.send(("end",))
                wire.close()
            except OSError:  # it is gone, as it should be
                pass
        if dist.is_initialized() and not self._broken:  # to part from a process that is gone could take for ever
            dist.destroy_process_group()

    # -- side by side -----------------------------------------------------------------------------------------------

    def add_up(self, *tensors: Tensor) -> None:
        for tensor in tensors:
            dist.all_reduce(tensor, group=self.cpu)

    def total(self, numbers: dict[str, float]) -> dict[str, float]:
        known: list[dict[str, float]] = [{} for _ in range(self.size)]
        dist.all_gather_object(known, dict(numbers), group=self.cpu)
        found: dict[str, float] = {}
        for part in known:
            for name, number in part.items():
                found[name] = found.get(name, 0.0) + number
        return found

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        if self.sharded:
            return  # each was summed on its way to the process that keeps it
        present = torch.tensor([parameter.grad is not None for parameter in parameters], dtype=torch.long)
        dist.all_reduce(present, group=self.cpu)
        whole = [parameter for parameter, known in zip(parameters, present.tolist(), strict=True) if known]
        for bucket in _buckets(whole):
            flat = torch.cat([_gradient(parameter).flatten() for parameter in bucket])
            dist.all_reduce(flat)
            for parameter, part in zip(bucket, torch.split(flat, [one.numel() for one in bucket]), strict=True):
                parameter.grad = part.view_as(parameter).clone()


def _gradient(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def _buckets(parameters: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Neighbours of one type that travel together."""
    bucket: list[nn.Parameter] = []
    for parameter in parameters:
        full = sum(one.numel() for one in bucket) + parameter.numel() > _BUCKET
        if bucket and (full or bucket[0].dtype != parameter.dtype):
            yield bucket
            bucket = []
        bucket.append(parameter)
    if bucket:
        yield bucket
