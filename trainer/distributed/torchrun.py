"""Process group of a run started by torchrun: rank 0 runs the loop, writes the journal and saves; the others follow.

Rank 0 commands the other ranks where work is shared: rollout and learning (`trainer.loops.worker_rank`).
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

_BUCKET = 2**24  # gradient elements per all-reduce: 64 MiB in float32
_SHUTDOWN_TIMEOUT = 20.0  # seconds for rank 0 to end by itself after another rank was lost
_PR_SET_PDEATHSIG = 1


def rank_and_world_size() -> tuple[int, int]:
    """Rank and world size from torchrun's variables; (0, 1) without it."""
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def is_worker_rank() -> bool:
    """Whether this process has a rank above 0."""
    return rank_and_world_size()[0] > 0


def join_group(config: RunConfig) -> ProcessGroup:
    """Connect the processes of the run.

    Raises:
        ModelError: the settings do not support several processes.
        RankLostError: other ranks do not connect.
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
    """torchrun starts each process in its own session and would leave them behind when killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


class TorchrunGroup:
    """The processes of a run, seen from one of them. See `trainer.distributed.group.ProcessGroup`.

    Args:
        lines: channels from rank 0 to the other ranks, or from another rank to rank 0.
        cpu: process group for tensors on the CPU.
    """

    def __init__(self, rank: int, size: int, lines: list[ControlChannel], cpu: Any) -> None:
        self.rank, self.size, self.lines, self.cpu, self.sharded = rank, size, lines, cpu, False
        self._busy = self._broken = False
        self._ended = threading.Event()

    # -- from the main process to the others ------------------------------------------------------------------------

    def tell(self, *order: Any) -> None:
        """Send a command to all other ranks. Raises RankLostError if one is lost."""
        for number in range(1, self.size):
            self.order(number, *order)

    def order(self, number: int, *order: Any) -> None:
        """Send a command to another rank. Raises RankLostError if it is lost."""
        try:
            self.lines[number - 1].send(order)
        except OSError as error:
            raise self.lost(number) from error

    def answers(self, number: int, seconds: float = 0.0) -> Iterator[tuple[Any, ...]]:
        """Pending messages of another rank, waiting this many seconds for the first one.

        Raises:
            RankLostError: it is lost or failed.
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
        """The error for a lost rank."""
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
        """The error of a lost or failed rank, which makes collective operations fail; None if there is none."""
        for number in range(1, self.size):
            try:
                for _ in self.answers(number, 1.0):
                    pass
            except RankLostError as error:
                return error
        return None

    def prepare(self, recipe: LearnerSpec) -> None:
        """Make the other ranks create the same policy and learner."""
        self.follow(recipe)
        self.tell("prepare", recipe)

    def follow(self, recipe: LearnerSpec) -> None:
        """Take over what this process needs before it creates them."""
        self.sharded = recipe.config.parallel.sharding == "full"

    def guard(self, says: Callable[[str], None]) -> None:
        """From now on the end of another rank ends this process too, even if it hangs, after `says(reason)`."""

        def gone(number: int) -> None:
            if not self._ended.wait(_SHUTDOWN_TIMEOUT):  # normally the main thread notices too and ends the run
                says(str(self.lost(number)))
                os._exit(1)

        threading.Thread(
            target=control_channel.monitor, args=(self.lines, gone, self._ended), name="guard", daemon=True
        ).start()

    def close(self) -> None:
        """End the run on all ranks."""
        self._ended.set()
        for wire in self.lines:
            try:
                if self.rank == 0:
                    wire.send(("end",))
                wire.close()
            except OSError:  # it has ended already
                pass
        if dist.is_initialized() and not self._broken:  # destroying the group could hang after a rank was lost
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
            return  # reduce-scatter has summed them
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
    """Consecutive parameters of one dtype that are reduced together."""
    bucket: list[nn.Parameter] = []
    for parameter in parameters:
        full = sum(one.numel() for one in bucket) + parameter.numel() > _BUCKET
        if bucket and (full or bucket[0].dtype != parameter.dtype):
            yield bucket
            bucket = []
        bucket.append(parameter)
    if bucket:
        yield bucket
