"""Connection of a run to a Ray cluster. The placement of its actors is in actor_placement.py."""

from __future__ import annotations

import math
import os
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any

import ray
from ray.exceptions import AuthenticationError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from trainer.cluster.actor_placement import ActorPlacement
from trainer.cluster.errors import ClusterError
from trainer.cluster.local_cluster import QUIET, is_start_failure, object_store_bytes, start_local_cluster
from trainer.config.resources import RAY_ADDRESS_VARIABLE, ClusterConfig
from trainer.memory.available import available_memory

_MEMORY_SECONDS = 60.0
_PROBE_SECONDS = 10.0
"""Time limit for an address to accept a connection. Ray itself would try for minutes."""


def get_cause(error: RayTaskError) -> Exception:
    """Return the exception that an actor's method raised."""
    cause: Exception = error.cause if isinstance(error.cause, Exception) else error
    return cause


def first_line(error: Exception) -> str:
    """Return the first sentence of a message of Ray, because its messages span pages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__


class ClusterConnection:
    """A run's connection to Ray; without an address, to a cluster that starts on this machine and ends with the run.

    Args:
        config: numbers of actors and what each reserves.
        stop, notify: see `ActorPlacement`.
        policy_bytes: size of the weights, for the object store of a cluster that is started here.
    Raises:
        ClusterError: no cluster answers at the address, or its versions differ from the versions here.
    """

    def __init__(
        self, config: ClusterConfig, stop: Callable[[], bool], notify: Callable[[str], None], policy_bytes: int
    ) -> None:
        self.config = config
        self.placement = ActorPlacement(stop, notify)
        self.address = os.environ.get(RAY_ADDRESS_VARIABLE, "").strip()
        if any(character.isspace() or character == "@" for character in self.address):
            example = "an address such as 10.0.0.5:6379, or auto"
            raise ClusterError(f"{RAY_ADDRESS_VARIABLE} must be {example}, not {self.address!r}")
        self._owned = not ray.is_initialized()
        self._folder: str | None = None
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
            ray.shutdown()  # remains of a connection that was refused
            raise ClusterError(self._refusal(error)) from error
        finally:
            # Ray's handler would end the process at once; a run finishes its turn and saves a checkpoint.
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _slots(self) -> int:
        """Number of CPUs that all actors reserve."""
        cluster = self.config
        rollouts = cluster.rollout_actors * cluster.rollout_reservation.cpus
        return math.ceil(rollouts + cluster.learners * cluster.learner_reservation.cpus)

    def _refusal(self, error: Exception) -> str:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if not self.address:
            return (
                f"Ray could not be started on this machine: {reason.rstrip('.')}. It allows its own processes half a "
                "minute: where the machine is too busy for that, try again later, or start a cluster (ray start "
                f"--head) and name it in {RAY_ADDRESS_VARIABLE}"
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
            f"{RAY_ADDRESS_VARIABLE}, or unset it for a cluster on this machine"
        )

    @staticmethod
    def put(value: Any) -> Any:
        """Put an object into the object store. Returns its reference."""
        return ray.put(value)

    def free_memory(self, nodes: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Return (free, total) bytes by node id, without nodes that do not report them."""
        this_node = ray.get_runtime_context().get_node_id()
        memory_by_node: dict[str, tuple[int, int]] = {}
        for node in nodes:
            memory = available_memory() if node == this_node else self._ask_for_memory(node)
            if memory is not None:
                memory_by_node[node] = memory
        return memory_by_node

    def _ask_for_memory(self, node: str) -> tuple[int, int] | None:
        task: Any = ray.remote(available_memory)
        there = NodeAffinitySchedulingStrategy(node, soft=False)
        try:
            memory: tuple[int, int] | None = ray.get(
                task.options(num_cpus=0, scheduling_strategy=there).remote(), timeout=_MEMORY_SECONDS
            )
        except RayError:  # lost or overloaded: its actors will report it
            return None
        return memory

    def close(self) -> None:
        """Release the reserved resources; a cluster that was started here ends."""
        if ray.is_initialized():
            self.placement.release()
            if self._owned:
                ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _probe(address: str) -> None:
    """Raise OSError if nothing accepts connections at host:port; Ray checks other forms of an address."""
    host, _, port = address.rpartition(":")
    if port.isdecimal() and "://" not in address:
        socket.create_connection((host.strip("[]"), int(port)), _PROBE_SECONDS).close()


def _signal_handlers() -> dict[int, Any]:
    """Return the current handlers of stop signals, to be restored; none outside the main thread, as Ray sets none."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
