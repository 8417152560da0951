"""Learner actor: one rank of the learners of a run, in a separate process."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import psutil
import ray
import torch
import torch.distributed as dist
from torch import Tensor

from trainer import timeouts
from trainer.cluster.actor_description import ActorDescription
from trainer.cluster.transfer import PackedWeights, PolicyFiles
from trainer.config.run import RunConfig
from trainer.config.update_variants import VARIANTS_VARIABLE
from trainer.distributed.collectives import RankGroup
from trainer.distributed.group import ProcessGroup, SingleProcess
from trainer.journal.protocol import LEARNER_STATE
from trainer.learner.groups.imitator import Imitator
from trainer.learner.learner import Learner
from trainer.learner.learnt_tokens import LearntTokens
from trainer.learner.update_meter import UpdateReport
from trainer.memory import preflight
from trainer.policy.load import pick_device


@dataclass
class LearnerReport:
    """Events in the first learner since its last report.

    Attributes:
        progress: progress of the update, in order.
        notices: messages for the user.
        finished: whether a call of all ranks has ended; later events are not included.
    """

    progress: list[UpdateReport] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    finished: bool = False


@dataclass(frozen=True)
class UpdateResult:
    """Metrics of an update, and `learnt` of its learner."""

    metrics: dict[str, float]
    learnt: LearntTokens | None


def find_interface(address: str) -> str:
    """Return the name of the network interface with this address; empty if none has it."""
    interfaces: dict[str, list[Any]] = psutil.net_if_addrs()
    return next(
        (
            name
            for name, addresses in interfaces.items()
            if any(candidate.address == address for candidate in addresses)
        ),
        "",
    )


class LearnerActor:
    """Policy, critic and optimisers of one rank.

    Args:
        config: the run's settings.
        rank, size: among the run's learners.
        variants: `ECHOSCOPE_UPDATE_VARIANTS` of the run's process, which a node of a cluster does not have.
    """

    def __init__(self, config: RunConfig, rank: int, size: int, variants: str) -> None:
        os.environ[VARIANTS_VARIABLE] = variants
        self.config, self.rank, self.size = config, rank, size
        self.group: ProcessGroup = SingleProcess()
        self._messages: SimpleQueue[UpdateReport | str | None] = SimpleQueue()
        self._saved: Path | None = None
        self._socket: socket.socket | None = None

    def address(self) -> str:
        """Return the host and port at which the first rank waits for the others, bound to its node's address only."""
        host = ray.util.get_node_ip_address()
        self._socket = socket.create_server((host, 0))
        return f"{host}:{self._socket.getsockname()[1]}"

    def prepare(self, address: str, files: PolicyFiles, reference: PolicyFiles | None) -> ActorDescription:
        """Join the other ranks and load the models.

        Args:
            address: address of the first rank.
            files: the policy, without adapters.
            reference: the initial policy; None: no reference is kept.
        Raises:
            ModelError: a model cannot be loaded here.
            OutOfMemoryError: this rank does not fit its GPU.
        """
        config = self.config
        if config.policy.threads:
            torch.set_num_threads(config.policy.threads)
        device = pick_device(config.policy.device)
        plan = preflight.check_gpu(config, files.shape, device, "learn")
        if self.size > 1:
            self.group = self._join(address, device)
        policy = files.load(config.policy)
        initial = None if reference is None else reference.load(config.policy)
        self.learner: Learner | Imitator = (
            Imitator(config, policy, self.group)
            if config.kind == "sft"
            else Learner(config, policy, initial, self.group)
        )
        if self.rank == 0:
            if plan.warning:
                self._messages.put(plan.warning)
            self.learner.notify_with(self._messages.put)
            self.learner.report_to(self._messages.put)
        return ActorDescription.of_this_process(policy.model.device)

    def _join(self, address: str, device: torch.device) -> RankGroup:
        timeout = timedelta(seconds=timeouts.LEARNER_EXCHANGE.seconds)
        on_gpu = device.type == "cuda"
        host, _, port = address.rpartition(":")
        if interface := find_interface(ray.util.get_node_ip_address()):
            for backend in ("GLOO", "NCCL"):  # otherwise they may choose one that other nodes cannot reach
                os.environ.setdefault(f"{backend}_SOCKET_IFNAME", interface)
        store = dist.TCPStore(  # type: ignore[attr-defined]  # untyped in torch
            host,
            int(port),
            self.size,
            is_master=self.rank == 0,
            timeout=timeout,
            master_listen_fd=None if self._socket is None else self._socket.detach(),
        )
        dist.init_process_group(
            "nccl" if on_gpu else "gloo",
            store=store,
            rank=self.rank,
            world_size=self.size,
            timeout=timeout,
        )
        cpu = dist.new_group(backend="gloo", timeout=timeout) if on_gpu else dist.group.WORLD
        group = RankGroup(self.rank, self.size, cpu)
        group.sharded = self.config.parallel.sharding == "full"
        return group

    # -- calls of all ranks ------------------------------------------------------------------------------------------

    def call(self, name: str, *arguments: Any) -> Any:
        """Call one of the methods below on this rank, as on every rank."""
        try:
            return getattr(self, name)(*arguments)
        finally:
            if self.rank == 0:
                self._messages.put(None)

    def load(self, chunks: Sequence[Any]) -> list[str]:
        """Load critic, optimisers and adapters of a checkpoint. Returns warnings for the user.

        Args:
            chunks: references to the bytes of the checkpoint's file, in order.
        """
        with tempfile.TemporaryDirectory() as folder:
            with (Path(folder) / LEARNER_STATE).open("wb") as file:
                for chunk in chunks:
                    file.write(ray.get(chunk))
            return self.learner.load(Path(folder))

    def update(self, batch: Any, iteration: int) -> UpdateResult | None:
        """See `Learner.update`. Only the first rank returns the result."""
        assert isinstance(self.learner, Learner)
        metrics = self.learner.update(batch, iteration)
        return None if self.rank else UpdateResult(metrics, self.learner.learnt)

    def cross_scores(self, *arguments: Any) -> Tensor | None:
        """See `Learner.cross_scores`. Only the first rank returns the result."""
        assert isinstance(self.learner, Learner)
        scores = self.learner.cross_scores(*arguments)
        return None if self.rank else scores

    def imitate(self, batch: Any, lr_factor: float) -> dict[str, float]:
        """See `Imitator.imitate`."""
        assert isinstance(self.learner, Imitator)
        return self.learner.imitate(batch, lr_factor)

    def measure(self, batch: Any) -> dict[str, float]:
        """See `Imitator.measure`."""
        assert isinstance(self.learner, Imitator)
        return self.learner.measure(batch)

    def save(self) -> dict[str, int]:
        """Write a checkpoint into a folder of the first rank. Returns the size of each file by relative path."""
        if self.rank:  # only helps to gather the sharded tensors
            learner = self.learner.learner if isinstance(self.learner, Imitator) else self.learner
            learner.state()
            return {}
        self.discard()
        self._saved = Path(tempfile.mkdtemp(prefix="echoscope-checkpoint-"))
        self.learner.save(self._saved)
        paths = [path for path in sorted(self._saved.rglob("*")) if path.is_file()]
        return {path.relative_to(self._saved).as_posix(): path.stat().st_size for path in paths}

    # -- calls of single ranks ---------------------------------------------------------------------------------------

    def read(self, name: str, start: int, size: int) -> bytes:
        """Read part of a file of the saved checkpoint."""
        assert self._saved is not None
        with (self._saved / name).open("rb") as file:
            file.seek(start)
            return file.read(size)

    def discard(self) -> None:
        """Delete the saved checkpoint."""
        if self._saved is not None:
            shutil.rmtree(self._saved, ignore_errors=True)
            self._saved = None

    def weights(self) -> tuple[int, PackedWeights]:
        """Return the current version and weights; they stay in this node's object store until a process reads them."""
        packed = PackedWeights.of(self.learner.weights())
        return packed.version, packed

    def report(self, wait: float) -> LearnerReport:
        """Return the events since the last report, after waiting at most this many seconds for any."""
        report, deadline = LearnerReport(), time.monotonic() + wait
        try:
            while True:
                message = self._messages.get(timeout=max(0.0, deadline - time.monotonic()))
                if message is None:
                    report.finished = True
                    return report
                if isinstance(message, str):
                    report.notices.append(message)
                else:
                    report.progress.append(message)
                deadline = time.monotonic()  # take what else is there, but wait no longer
        except Empty:
            return report

    def close(self) -> None:
        """Leave the process group and delete temporary files."""
        self.discard()
        self.group.close()
