"""Distributed rollout: each process plays a share of the groups; rank 0 emits the events of all.

Events of one trajectory stay in order; those of different groups interleave as they happen.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Self

from trainer.distributed.control_channel import ControlChannel
from trainer.distributed.group import ProcessGroup
from trainer.distributed.torchrun import TorchrunGroup
from trainer.rollout.runner import (
    EnvironmentsFailedError,
    Interrupted,
    ListenerFactory,
    RolloutRequest,
    RolloutRunner,
    check_played,
)
from trainer.rollout.sessions import join
from trainer.rollout.trajectory import Trajectory

_POLL_SECONDS = 0.05  # for each other rank, once rank 0 has played its own share


def shard(runner: RolloutRunner, group: ProcessGroup) -> RolloutRunner:
    """The runner, distributed over the processes of the run where each has its own in-process sampler."""
    external = runner.config.engine.name != "transformers" or runner.config.hosted.url
    return DistributedRollout.over(runner, group) if isinstance(group, TorchrunGroup) and not external else runner


@dataclass
class DistributedRollout(RolloutRunner):
    """The runner of rank 0. The assignment of groups to ranks affects timing only, not results."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.group: TorchrunGroup
        self.inner: RolloutRunner

    @classmethod
    def over(cls, runner: RolloutRunner, group: TorchrunGroup) -> Self:
        """Distribute the groups requested from this runner."""
        distributed = cls(**{field.name: getattr(runner, field.name) for field in fields(RolloutRunner)})
        distributed.group, distributed.inner = group, runner
        return distributed

    def close(self) -> None:
        self.inner.close()

    def play(self, request: RolloutRequest, listener: ListenerFactory | None = None) -> list[Trajectory]:
        """As `RolloutRunner.play`; the listener receives the tokens of rank 0's own share."""
        size = self.group.size
        own_share, *other_shares = [replace(request, plans=list(request.plans[rank::size])) for rank in range(size)]
        remote = _RemoteProgress(self)
        for rank, share in enumerate(other_shares, start=1):
            if share.plans:
                self.group.send(rank, "play", share)
                remote.pending.add(rank)
        self.inner.emit, self.inner.progress, self.inner.stop = self.emit, remote.on_own_progress, remote.stop
        trajectories: list[Trajectory] = []
        try:
            if own_share.plans:
                trajectories = self.inner.play(own_share, listener)
        except Interrupted:
            remote.halt()
            raise
        except EnvironmentsFailedError as error:
            trajectories = error.trajectories
        remote.wait()
        if remote.interrupted:
            raise Interrupted
        trajectories = join(request.plans, [trajectories, *remote.shares])
        check_played(trajectories)
        return trajectories


class _RemoteProgress:
    """Events, progress and results of the other ranks."""

    def __init__(self, runner: DistributedRollout) -> None:
        self.runner, self.group = runner, runner.group
        self.pending: set[int] = set()
        self.counts: dict[int, tuple[int, int]] = {}  # by rank: finished trajectories, sampled tokens
        self.shares: list[list[Trajectory]] = []
        self.interrupted = False

    def on_own_progress(self, done: int, tokens: int) -> None:
        """Update rank 0's progress and report the sum over all ranks."""
        self.counts[0] = (done, tokens)
        self.runner.progress(sum(n for n, _ in self.counts.values()), sum(n for _, n in self.counts.values()))

    def stop(self) -> bool:
        """Polled between turns: receive messages of the other ranks. Returns whether the run is to stop."""
        self.receive()
        return self.runner.stop()

    def receive(self, seconds: float = 0.0) -> None:
        """Process the messages of the other ranks, waiting this long for each rank's first one."""
        for rank in sorted(self.pending):
            for kind, *payload in self.group.messages(rank, seconds):
                match kind:
                    case "events":
                        events, done, tokens = payload
                        self.runner.emit(*events)
                        self.counts[rank] = (done, tokens)
                        self.on_own_progress(*self.counts.get(0, (0, 0)))
                    case "played":
                        self.shares.append(payload[0])
                        self.pending.discard(rank)
                    case "interrupted":
                        self.interrupted = True
                        self.pending.discard(rank)

    def wait(self) -> None:
        """Wait until all ranks have finished; forwards a stop request."""
        while self.pending:
            if self.runner.stop():
                self.halt()
                return
            self.receive(_POLL_SECONDS)

    def halt(self) -> None:
        """Interrupt the other ranks, and process their last messages."""
        for rank in sorted(self.pending):
            self.group.send(rank, "stop")
        self.interrupted = True
        while self.pending:
            self.receive(_POLL_SECONDS)


def rollout_shard(channel: ControlChannel, runner: RolloutRunner, request: RolloutRequest) -> None:
    """On a rank above 0: play a share, and send its events and trajectories to rank 0."""
    counts = [0, 0]
    stopped = False

    def emit(*events: Any) -> None:
        channel.send(("events", events, *counts))

    def progress(done: int, tokens: int) -> None:
        counts[:] = [done, tokens]

    def stop() -> bool:
        nonlocal stopped
        while not stopped and channel.poll(0):
            stopped = channel.recv()[0] in ("stop", "end")
        return stopped

    runner.emit, runner.progress, runner.stop = emit, progress, stop
    try:
        trajectories = runner.play(request)
    except Interrupted:
        channel.send(("interrupted",))
        return
    except EnvironmentsFailedError as error:  # only rank 0 can decide whether all ranks failed
        trajectories = error.trajectories
    channel.send(("events", (), *counts))
    channel.send(("played", trajectories))
