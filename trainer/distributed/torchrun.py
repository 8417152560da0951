"""Process group of a run started by torchrun.

Rank 0 runs the loop, writes journal and checkpoints, and sends commands to the other ranks for rollout and learning
(`trainer.loops.worker_rank`).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from trainer.config.run import RunConfig
from trainer.distributed import control_channel
from trainer.distributed.collectives import Collectives
from trainer.distributed.control_channel import ControlChannel, RankLostError
from trainer.distributed.group import LearnerSpec, ProcessGroup, SingleProcess, check_sharding
from trainer.policy.load import ModelError, pick_device

_SHUTDOWN_TIMEOUT = 20.0  # seconds in which this process should end by itself after another rank was lost
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
    if config.cluster.uses_ray:
        raise ModelError(
            "torchrun started several processes, but cluster.rollout_actors or cluster.learners is above 0: start one "
            "with `python -m trainer`, which starts the actors itself, or set both to 0"
        )
    check_sharding(config)
    _check_devices(config)
    timeout = config.parallel.timeout
    from accelerate import PartialState  # type: ignore[import-untyped]

    group_timeout = timedelta(seconds=timeout)
    state = PartialState(cpu=pick_device(config.policy.device).type == "cpu", timeout=group_timeout)
    cpu = dist.group.WORLD if state.backend == "gloo" else dist.new_group(backend="gloo", timeout=group_timeout)
    rank, size = state.process_index, state.num_processes

    def broadcast(value: Any) -> Any:
        values = [value]
        dist.broadcast_object_list(values, src=0, group=cpu)
        return values[0]

    channels = control_channel.connect(rank, size, broadcast, timeout)
    return TorchrunGroup(rank, size, channels, cpu)


def _check_devices(config: RunConfig) -> None:
    local_size = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if pick_device(config.policy.device).type == "cuda" and local_size > torch.cuda.device_count():
        raise ModelError(
            f"{local_size} processes share {torch.cuda.device_count()} GPU(s) of this machine: start at most one per "
            "GPU (--nproc-per-node), or set policy.device to cpu"
        )


def _die_with_parent() -> None:
    """End with torchrun, which starts each process in its own session and would leave it behind when killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


class TorchrunGroup(Collectives):
    """The processes of a run, seen from one of them. See `trainer.distributed.group.ProcessGroup`.

    Args:
        channels: from rank 0 to the other ranks, or from another rank to rank 0.
        cpu: process group for tensors on the CPU.
    """

    def __init__(self, rank: int, size: int, channels: list[ControlChannel], cpu: Any) -> None:
        super().__init__(rank, size, cpu)
        self.channels = channels
        self._busy = self._broken = False
        self._ended = threading.Event()

    # -- commands of rank 0 -----------------------------------------------------------------------------------------

    def broadcast(self, *command: Any) -> None:
        """Send a command to all other ranks. Raises RankLostError if one is lost."""
        for number in range(1, self.size):
            self.send(number, *command)

    def send(self, number: int, *command: Any) -> None:
        """Send a command to another rank. Raises RankLostError if it is lost."""
        try:
            self.channels[number - 1].send(command)
        except OSError as error:
            raise self.lost_rank(number) from error

    def messages(self, number: int, seconds: float = 0.0) -> Iterator[tuple[Any, ...]]:
        """Pending messages of another rank, waiting this many seconds for the first one.

        Raises:
            RankLostError: it is lost or failed.
        """
        channel = self.channels[number - 1]
        try:
            while channel.poll(seconds):
                message = channel.recv()
                if message[0] == "failed":
                    raise RankLostError(f"process {number} of {self.size} failed: {message[1]}")
                yield message
                seconds = 0.0
        except (EOFError, OSError) as error:
            raise self.lost_rank(number) from error

    def lost_rank(self, number: int) -> RankLostError:
        """The error for a lost rank."""
        self._broken = True
        return RankLostError(
            f"process {number} of {self.size} was lost: killed, out of memory, or its machine is unreachable. Its own "
            "output may contain the reason. Checkpoints are kept: start the run again with --resume"
        )

    @contextmanager
    def on_all_ranks(self, name: str, *arguments: Any) -> Iterator[None]:
        if self.rank or self._busy:
            yield
            return
        self.broadcast("call", name, arguments)
        self._busy = True
        try:
            yield
        except RuntimeError as error:
            if reason := self._lost_rank_error():
                raise reason from error
            raise
        finally:
            self._busy = False

    def _lost_rank_error(self) -> RankLostError | None:
        """The error of a lost or failed rank, which makes collective operations fail; None if there is none."""
        for number in range(1, self.size):
            try:
                for _ in self.messages(number, 1.0):
                    pass
            except RankLostError as error:
                return error
        return None

    def prepare(self, spec: LearnerSpec) -> None:
        """Make the other ranks create the same policy and learner."""
        self.configure(spec)
        self.broadcast("prepare", spec)

    def configure(self, spec: LearnerSpec) -> None:
        """Apply the settings that this process needs before it creates its learner."""
        self.sharded = spec.config.parallel.sharding == "full"

    def check(self) -> None:
        """Raises RankLostError if another rank has ended or failed. Pending messages are dropped."""
        for number in range(1, self.size):
            for _ in self.messages(number):
                pass

    def guard(self, report: Callable[[str], None]) -> None:
        """From now on, end this process after `report(reason)` when another rank ends, even if it hangs."""

        def on_lost(number: int) -> None:
            if not self._ended.wait(_SHUTDOWN_TIMEOUT):  # normally the main thread ends the run first
                report(str(self.lost_rank(number)))
                os._exit(1)

        threading.Thread(
            target=control_channel.monitor, args=(self.channels, on_lost, self._ended), name="guard", daemon=True
        ).start()

    def close(self) -> None:
        """End the run on all ranks."""
        self._ended.set()
        for channel in self.channels:
            try:
                if self.rank == 0:
                    channel.send(("end",))
                channel.close()
            except OSError:  # it has ended already
                pass
        if dist.is_initialized() and not self._broken:  # destroying the group could hang after a rank was lost
            dist.destroy_process_group()
