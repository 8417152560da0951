"""Learner group of Ray actors: the ranks of one torch.distributed process group, called together by the driver."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError
from torch import Tensor

from trainer import timeouts
from trainer.cluster.actor_description import ActorDescription, check_versions
from trainer.cluster.actor_placement import Bundle
from trainer.cluster.connection import ClusterConnection, first_line, get_cause
from trainer.cluster.errors import ClusterError, LearnerLostError
from trainer.cluster.learner_actor import LearnerActor, LearnerReport, UpdateResult
from trainer.cluster.transfer import PackedWeights
from trainer.config.run import RunConfig
from trainer.config.update_variants import VARIANTS_VARIABLE
from trainer.distributed.group import check_sharding
from trainer.journal.protocol import LEARNER_STATE
from trainer.learner.learnt_tokens import LearntTokens
from trainer.learner.update_meter import UpdateReport
from trainer.policy.weights import VersionedWeights
from trainer.rollout.runner import Interrupted
from trainer.rollout.trajectory import Batch

CHUNK_BYTES = 64 * 2**20
"""Size of the chunks in which a checkpoint's files are sent between nodes."""
_THREADS = 3
"""Threads of an actor: a collective call, a report that waits, and a short call."""
_REPORT_SECONDS = 1.0
_POLL_SECONDS = 0.2
_CLOSE_SECONDS = 10.0
_LOST_SECONDS = 5.0
"""Time that a failed call waits for the loss of another rank to be reported."""


class RayLearnerGroup:
    """See `trainer.learner.groups.learner_group`: `LearnerGroup`, and for runs of kind sft `ImitatorGroup`.

    Args:
        config: the run's settings.
        files: reference to the policy's `PolicyFiles`.
        reference: reference to the `PolicyFiles` of the initial policy; None: no reference is kept.
        connection: connection with `bundles` reserved from bundle number `first` on.
        bundles: resources of each rank.
        stop: polled while the ranks load; True interrupts it.
    Raises:
        ClusterError: a rank does not start, or its versions differ from the versions here.
        ModelError: the settings cannot be sharded, or a model cannot be loaded.
        Interrupted: a stop was requested.
    """

    def __init__(
        self,
        config: RunConfig,
        files: Any,
        reference: Any,
        connection: ClusterConnection,
        bundles: list[Bundle],
        *,
        first: int = 0,
        stop: Callable[[], bool],
    ) -> None:
        if len(bundles) > 1:
            check_sharding(config)
        self.config, self.stop = config, stop
        self.learnt: LearntTokens | None = None
        self.version = 0
        self._progress: Callable[[UpdateReport], None] | None = None
        self._notify: Callable[[str], None] = lambda message: None
        self._report: Any = None
        self._active_at = 0.0  # time of the last report on the current call, in seconds of the monotonic clock
        self._finished = False  # whether the last report of the current call of all ranks has arrived
        settings, actor = ray.put(config), ray.remote(LearnerActor)
        self._ranks: list[Any] = [
            actor.options(
                num_cpus=bundle["CPU"],
                num_gpus=bundle.get("GPU", 0),
                max_concurrency=_THREADS,
                max_restarts=0,
                scheduling_strategy=connection.placement.strategy(first + rank),
            ).remote(settings, rank, len(bundles), os.environ.get(VARIANTS_VARIABLE, ""))
            for rank, bundle in enumerate(bundles)
        ]
        self._descriptions: list[ActorDescription] = []
        address = self._await_start([self._ranks[0].address.remote()])[0]
        prepared = self._await_start([rank.prepare.remote(address, files, reference) for rank in self._ranks])
        for rank, description in enumerate(prepared):
            check_versions(f"learner {rank + 1}", description)
        self._descriptions = prepared
        devices = Counter(description.device for description in prepared)
        self.device = ", ".join(f"{count} × {device}" for device, count in devices.items())

    # -- LearnerGroup, ImitatorGroup ---------------------------------------------------------------------------------

    def update(self, batch: Batch, iteration: int, /) -> dict[str, float]:
        result: UpdateResult = self._on_all_ranks("update", ray.put(batch), iteration)
        self.learnt = result.learnt
        self.version += 1
        return result.metrics

    def cross_scores(
        self, prompts: list[list[int]], thoughts: list[list[int]], before: int = 0, after: int = 0, /
    ) -> Tensor:
        scores: Tensor = self._on_all_ranks("cross_scores", prompts, thoughts, before, after)
        return scores

    def imitate(self, batch: Batch, lr_factor: float, /) -> dict[str, float]:
        metrics: dict[str, float] = self._on_all_ranks("imitate", ray.put(batch), lr_factor)
        self.version += 1
        return metrics

    def measure(self, batch: Batch, /) -> dict[str, float]:
        metrics: dict[str, float] = self._on_all_ranks("measure", ray.put(batch))
        return metrics

    # -- TrainedPolicy -----------------------------------------------------------------------------------------------

    def report_to(self, progress: Callable[[UpdateReport], None] | None = None) -> None:
        self._progress = progress

    def notify_with(self, notify: Callable[[str], None]) -> None:
        self._notify = notify

    def weights(self) -> VersionedWeights:
        packed: PackedWeights = ray.get(self.packed_weights())
        return packed.unpack()

    def packed_weights(self) -> Any:
        """Return a reference to the current weights, which stay on the first rank's node until they are read."""
        version, packed = self._ranks[0].weights.options(num_returns=2).remote()
        self._result(version, 0)  # waits for them, and fails if the rank was lost
        return packed

    def save(self, folder: Path) -> None:
        """Write the checkpoint in this process only, in chunks: nodes need no shared disk."""
        files: dict[str, int] = self._on_all_ranks("save")
        for name, size in files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                for start in range(0, size, CHUNK_BYTES):
                    file.write(self._collect([self._ranks[0].read.remote(name, start, CHUNK_BYTES)])[0])
        self._ranks[0].discard.remote()

    def load(self, folder: Path) -> list[str]:
        chunks = []
        with (folder / LEARNER_STATE).open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                chunks.append(ray.put(chunk))
        warnings: list[str] = self._on_all_ranks("load", chunks)
        return warnings

    def close(self) -> None:
        """End the actors, by force if they do not react."""
        if self._ranks:
            ray.wait(
                [rank.close.remote() for rank in self._ranks], num_returns=len(self._ranks), timeout=_CLOSE_SECONDS
            )
        for rank in self._ranks:
            ray.kill(rank)
        self._ranks = []

    # -- ranks -------------------------------------------------------------------------------------------------------

    def _on_all_ranks(self, method: str, *arguments: Any) -> Any:
        """Call a method of all ranks at once. Returns the result of the first one.

        Raises:
            LearnerLostError: a rank was lost.
        """
        self._finished = False
        result = self._collect([rank.call.remote(method, *arguments) for rank in self._ranks])[0]
        while not self._finished:
            self._pass_on_report(wait=True)
        return result

    def _collect(self, calls: list[Any]) -> list[Any]:
        """Return the results of calls, one per rank in order; reports of the first rank are passed on meanwhile."""
        pending, limit = list(calls), timeouts.CLUSTER_ACTOR.seconds
        self._active_at = time.monotonic()
        while pending:
            previous_count = len(pending)
            pending = self._wait(calls, pending)
            if self._pass_on_report() or len(pending) < previous_count:
                self._active_at = time.monotonic()
            if pending and time.monotonic() - self._active_at > limit:
                name = self._name(calls.index(pending[0]))
                raise LearnerLostError(f"{name} hangs: no progress within {timeouts.CLUSTER_ACTOR}")
        return [self._result(call, rank) for rank, call in enumerate(calls)]

    def _await_start(self, calls: list[Any]) -> list[Any]:
        """Return the results of the first calls of all ranks, within the time limit `CLUSTER_START`.

        Raises:
            ClusterError: a rank takes longer.
            Interrupted: a stop was requested.
        """
        deadline, pending = time.monotonic() + timeouts.CLUSTER_START.seconds, list(calls)
        while pending:
            pending = self._wait(calls, pending)
            if self.stop():
                raise Interrupted
            if pending and time.monotonic() > deadline:
                raise ClusterError(
                    f"{self._name(calls.index(pending[0]))} was not ready within {timeouts.CLUSTER_START}: "
                    "see the logs of its node (/tmp/ray/session_latest)"
                )
        return [self._result(call, rank) for rank, call in enumerate(calls)]

    def _wait(self, calls: list[Any], pending: list[Any]) -> list[Any]:
        """Wait shortly for pending calls. Returns the calls that are still pending.

        Raises the exception of a failed rank at once: the other ranks wait for that rank.
        """
        done, pending = ray.wait(pending, num_returns=len(pending), timeout=_POLL_SECONDS)
        for call in done:
            try:
                self._result(call, calls.index(call))
            except RuntimeError:
                self._raise_if_lost(calls)
                raise
        return pending

    def _raise_if_lost(self, calls: list[Any]) -> None:
        """Raise LearnerLostError if a rank was lost: the others fail too, and may fail before it is noticed."""
        ray.wait(calls, num_returns=len(calls), timeout=_LOST_SECONDS)
        for rank, call in enumerate(calls):
            if ray.wait([call], timeout=0)[0]:
                try:
                    self._result(call, rank)
                except LearnerLostError:
                    raise
                except RuntimeError:  # like the one that was raised first
                    continue

    def _result(self, call: Any, rank: int) -> Any:
        try:
            return ray.get(call)
        except RayTaskError as error:
            raise get_cause(error) from error
        except RayActorError as error:
            raise LearnerLostError(
                f"{self._name(rank)} was lost ({first_line(error)}): killed, out of memory, or its node is unreachable"
            ) from error

    def _pass_on_report(self, *, wait: bool = False) -> bool:
        """Pass on the first rank's report, waiting for one if `wait`. Returns whether the rank did any work.

        An empty report says only that the rank waits for its own work, which may hang.
        """
        if self._report is None:
            self._report = self._ranks[0].report.remote(_REPORT_SECONDS)
        if not wait and not ray.wait([self._report], timeout=0)[0]:
            return False
        report: LearnerReport = self._result(self._report, 0)
        self._report = None
        for notice in report.notices:
            self._notify(notice)
        for progress in report.progress:
            if self._progress is not None:
                self._progress(progress)
        self._finished = self._finished or report.finished
        return bool(report.progress or report.notices or report.finished)

    def _name(self, rank: int) -> str:
        name = f"learner {rank + 1}"
        return self._descriptions[rank].named(name) if self._descriptions else name
