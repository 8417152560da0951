"""Connection to a Ray cluster, and the share of it that a run reserves."""

from __future__ import annotations

import math
import os
import shutil
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import ray
from ray.exceptions import AuthenticationError, RayError, RayTaskError
from ray.util.placement_group import PlacementGroup, placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from trainer.cluster.errors import ClusterError
from trainer.cluster.local_cluster import QUIET, is_start_failure, object_store_bytes, start_local_cluster
from trainer.cluster.node_names import ID_LENGTH, node_names
from trainer.config.resources import RAY_ADDRESS_VARIABLE, ClusterConfig
from trainer.memory.available import available_memory
from trainer.rollout.runner import Interrupted

Bundle = Mapping[str, float]
"""Resources of one actor, by Ray's names: CPU, GPU."""

_POLL_SECONDS = 1.0
_SMALLER = (
    "Ask for less (cluster.rollout_actors, cluster.learners and the CPUs and GPUs of each), or add nodes and resume "
    "the run; cluster.start_timeout sets how long it waits"
)
_MEMORY_SECONDS = 60.0
_PROBE_SECONDS = 10.0
"""How long an address may take to accept a connection. Ray itself would try for minutes."""


def total(bundles: Sequence[Bundle]) -> dict[str, float]:
    """Sum of resources by name, without those that are 0."""
    sums: dict[str, float] = {}
    for bundle in bundles:
        for name, amount in bundle.items():
            sums[name] = sums.get(name, 0.0) + amount
    return {name: amount for name, amount in sums.items() if amount}


def cause_of(error: RayTaskError) -> Exception:
    """What an actor's method raised."""
    cause: Exception = error.cause if isinstance(error.cause, Exception) else error
    return cause


def first_line(error: Exception) -> str:
    """The first sentence of a message of Ray, whose messages go on for pages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__


def resources_as_text(resources: Mapping[str, float]) -> str:
    """As in "4 CPUs and 1 GPU"."""
    names = {"CPU": "CPUs", "GPU": "GPUs"}
    parts = [
        f"{resources[name]:g} {name if resources[name] == 1 else names.get(name, name)}"
        for name in sorted(resources)
        if name in names
    ]
    return " and ".join(parts) or "nothing"


class ClusterConnection:
    """A run's connection to Ray; without an address, to a cluster that is started on this machine and ends with it.

    Args:
        config: addresses, sizes and time limits.
        stop: polled while waiting; True ends the wait.
        notify: receives messages for the user.
        policy_bytes: of the weights, for the object store of a cluster of its own.
    Raises:
        ClusterError: no cluster answers at the address, or its versions differ from this process's.
    """

    def __init__(
        self, config: ClusterConfig, stop: Callable[[], bool], notify: Callable[[str], None], policy_bytes: int
    ) -> None:
        self.config, self.stop, self.notify = config, stop, notify
        self.address = config.address or os.environ.get(RAY_ADDRESS_VARIABLE, "")
        self._owned = not ray.is_initialized()
        self._folder: str | None = None
        self._group: PlacementGroup | None = None
        self._bundle_of: list[int] = []
        """By actor: its bundle in the placement group, which two may share."""
        if self._owned:
            self._connect(policy_bytes)

    def _connect(self, policy_bytes: int) -> None:
        handlers = _signal_handlers()
        try:
            if self.address:
                _probe(self.address)
                ray.init(address=self.address, **QUIET)
            else:
                self._folder = start_local_cluster(self._slots(), object_store_bytes(policy_bytes))
        except Exception as error:
            if not is_start_failure(error):
                raise
            ray.shutdown()  # what is left of a connection that was refused
            raise ClusterError(self._refusal(error)) from error
        finally:
            # Ray's handler would end the process at once; a run finishes its turn and saves a checkpoint.
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _slots(self) -> int:
        """CPUs that all actors reserve."""
        cluster = self.config
        return math.ceil(cluster.rollout_actors * cluster.rollout_cpus + cluster.learners * cluster.learner_cpus)

    def _refusal(self, error: Exception) -> str:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if not self.address:
            return (
                f"Ray could not be started on this machine: {reason.rstrip('.')}. It allows its own processes half a "
                "minute: where the machine is too busy for that, try again later, or start a cluster (ray start "
                "--head) and name it in cluster.address"
            )
        if isinstance(error, AuthenticationError):
            return (
                f"the Ray cluster at {self.address} refuses this process's token: set RAY_AUTH_MODE=token and "
                "RAY_AUTH_TOKEN_PATH as on its nodes"
            )
        if "ersion mismatch" in str(error):
            details = " ".join(str(error).split())
            return (
                f"the Ray cluster at {self.address} runs other versions than this process: {details}. Install the same "
                "versions of Python and Ray on all of its nodes"
            )
        return (
            f"no Ray cluster answers at {self.address} ({reason}): start one there (ray start --head), correct "
            f"cluster.address or {RAY_ADDRESS_VARIABLE}, or leave both empty for a cluster on this machine"
        )

    def bundles(
        self, actors: int, cpus: float, gpus: float | None, device: str, *, paired: bool = False
    ) -> list[Bundle]:
        """Resources of each of a number of actors.

        Args:
            gpus: of each; None: one, where the cluster has any and `device`, the setting of the policy, allows it.
            paired: None means half of one, because another actor has the other half.
        """
        if gpus is None:
            whole = device != "cpu" and ray.cluster_resources().get("GPU", 0.0) > 0
            gpus = (0.5 if paired else 1.0) if whole else 0.0
        return [{"CPU": cpus} | ({"GPU": gpus} if gpus else {})] * actors

    @staticmethod
    def put(value: Any) -> Any:
        """Put an object into the object store. Returns its reference."""
        return ray.put(value)

    def reserve(self, actors: Sequence[Bundle], pairs: int = 0) -> None:
        """Reserve resources for all actors of the run at once, waiting until they are free.

        Args:
            actors: resources of each.
            pairs: so many of the first actors share a bundle, and with it the GPU, with as many of the last ones.
        Raises:
            ClusterError: the cluster has not enough of them within `cluster.start_timeout`.
            Interrupted: the run was asked to stop.
        """
        unpaired = len(actors) - pairs
        partners = actors[unpaired:]
        self._bundle_of = [*range(unpaired), *range(pairs)]
        bundles = [total([actor, *partners[n : n + 1]]) for n, actor in enumerate(actors[:unpaired])]
        self._group = placement_group(bundles, strategy="PACK")
        began, notified = time.monotonic(), False
        while not self._group.wait(_POLL_SECONDS):
            if self.stop():
                raise Interrupted
            if time.monotonic() - began > self.config.start_timeout:
                raise ClusterError(f"{self._shortage(bundles)}. {_SMALLER}")
            if not notified:
                notified = True
                self.notify(f"Waiting for the Ray cluster: {self._shortage(bundles)}.")

    def _shortage(self, bundles: Sequence[Bundle]) -> str:
        return (
            f"the run needs {resources_as_text(total(bundles))}, the cluster has "
            f"{resources_as_text(ray.cluster_resources())}, of which {resources_as_text(ray.available_resources())} "
            "are free"
        )

    def place(self, actor: int) -> PlacementGroupSchedulingStrategy:
        """Scheduling strategy of one of the actors that resources were reserved for."""
        assert self._group is not None, "reserve() comes first"
        return PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=self._bundle_of[actor])

    def nodes(self, first: int, actors: Sequence[Bundle]) -> Counter[str]:
        """Numbers of actors without a GPU by the id of their node, of these ones, from actor number `first` on."""
        nodes = self._nodes()
        return Counter(nodes[first + number] for number, bundle in enumerate(actors) if not bundle.get("GPU"))

    def places(self) -> list[str]:
        """Name of the node of each actor; of a node that has left the cluster, its id."""
        names = node_names(ray.nodes())
        return [names.get(node, node[:ID_LENGTH]) for node in self._nodes()]

    def _nodes(self) -> list[str]:
        """Id of the node of each actor."""
        assert self._group is not None, "reserve() comes first"
        place: dict[int, str] = placement_group_table(self._group)["bundles_to_node_id"]
        return [place[bundle] for bundle in self._bundle_of]

    def free_memory(self, nodes: Iterable[str]) -> dict[str, tuple[int, int]]:
        """(free, total) bytes of nodes by id; without those that do not tell."""
        own = ray.get_runtime_context().get_node_id()
        found: dict[str, tuple[int, int]] = {}
        for node in nodes:
            memory = available_memory() if node == own else self._ask_for_memory(node)
            if memory is not None:
                found[node] = memory
        return found

    def _ask_for_memory(self, node: str) -> tuple[int, int] | None:
        task: Any = ray.remote(available_memory)
        there = NodeAffinitySchedulingStrategy(node, soft=False)
        try:
            memory: tuple[int, int] | None = ray.get(
                task.options(num_cpus=0, scheduling_strategy=there).remote(), timeout=_MEMORY_SECONDS
            )
        except RayError:  # lost or overloaded: its actors will tell
            return None
        return memory

    def close(self) -> None:
        """Return what was reserved; a cluster of its own ends."""
        if ray.is_initialized():
            if self._group is not None:
                remove_placement_group(self._group)
                self._group = None
            if self._owned:
                ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _probe(address: str) -> None:
    """Raises OSError where nothing accepts connections at host:port; other forms of an address are Ray's to judge."""
    host, _, port = address.rpartition(":")
    if port.isdecimal() and "://" not in address:
        socket.create_connection((host.strip("[]"), int(port)), _PROBE_SECONDS).close()


def _signal_handlers() -> dict[int, Any]:
    """The present handlers of stop signals, to be restored; none outside the main thread, where Ray sets none."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
