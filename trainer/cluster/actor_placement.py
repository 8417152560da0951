"""Placement of a run's Ray actors: the resources that each needs, their reservation, and their nodes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import ray
from ray.util.placement_group import PlacementGroup, placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from trainer import timeouts
from trainer.cluster.errors import ClusterError
from trainer.cluster.node_names import ID_LENGTH, node_names
from trainer.rollout.runner import Interrupted

Bundle = Mapping[str, float]
"""Resources of one actor, by Ray's names: CPU, GPU."""

_POLL_SECONDS = 1.0
_SMALLER = (
    "Ask for less (cluster.rollout_actors, cluster.learners and the CPUs and GPUs of each), or add nodes and resume "
    f"the run; {timeouts.CLUSTER_START.variable} sets how long it waits"
)


def total(bundles: Sequence[Bundle]) -> dict[str, float]:
    """Sum resources by name, without zeros."""
    sums: dict[str, float] = {}
    for bundle in bundles:
        for name, amount in bundle.items():
            sums[name] = sums.get(name, 0.0) + amount
    return {name: amount for name, amount in sums.items() if amount}


def resources_as_text(resources: Mapping[str, float]) -> str:
    """Format resources as in "4 CPUs and 1 GPU"."""
    names = {"CPU": "CPUs", "GPU": "GPUs"}
    parts = [
        f"{resources[name]:g} {name if resources[name] == 1 else names.get(name, name)}"
        for name in sorted(resources)
        if name in names
    ]
    return " and ".join(parts) or "nothing"


class ActorPlacement:
    """The placement group for all actors of a run.

    Args:
        stop: polled while waiting; True ends the wait.
        notify: receives messages for the user.
    """

    def __init__(self, stop: Callable[[], bool], notify: Callable[[str], None]) -> None:
        self.stop, self.notify = stop, notify
        self._group: PlacementGroup | None = None
        self._bundle_of: list[int] = []
        """Bundle of each actor in the placement group; two actors may share one."""

    def bundles(
        self, actors: int, cpus: float, gpus: float | None, device: str, *, paired: bool = False
    ) -> list[Bundle]:
        """Return the resources of each of a number of actors.

        Args:
            gpus: GPUs of each actor; None: one if the cluster has any and the policy's setting `device` allows it.
            paired: None means half a GPU, because another actor has the other half.
        """
        if gpus is None:
            whole = device != "cpu" and ray.cluster_resources().get("GPU", 0.0) > 0
            gpus = (0.5 if paired else 1.0) if whole else 0.0
        return [{"CPU": cpus} | ({"GPU": gpus} if gpus else {})] * actors

    def reserve(self, actors: Sequence[Bundle], pairs: int = 0) -> None:
        """Reserve resources for all actors of the run at once, waiting until they are free.

        Args:
            actors: the resources of each actor.
            pairs: this many of the first actors share a bundle, and its GPU, with as many of the last ones.
        Raises:
            ClusterError: the cluster does not have enough resources within the time limit `CLUSTER_START`.
            Interrupted: a stop was requested.
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
            if time.monotonic() - began > timeouts.CLUSTER_START.seconds:
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

    def strategy(self, actor: int) -> PlacementGroupSchedulingStrategy:
        """Return the scheduling strategy of one of the actors with reserved resources."""
        assert self._group is not None, "reserve() comes first"
        return PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=self._bundle_of[actor])

    def nodes(self, first: int, actors: Sequence[Bundle]) -> Counter[str]:
        """Count the actors without a GPU by node id, starting at actor number `first`."""
        nodes = self._nodes()
        return Counter(nodes[first + number] for number, bundle in enumerate(actors) if not bundle.get("GPU"))

    def actor_nodes(self) -> list[str]:
        """Return the name of each actor's node; the id of a node that has left the cluster."""
        names = node_names(ray.nodes())
        return [names.get(node, node[:ID_LENGTH]) for node in self._nodes()]

    def _nodes(self) -> list[str]:
        """Return the id of each actor's node."""
        assert self._group is not None, "reserve() comes first"
        node_by_bundle: dict[int, str] = placement_group_table(self._group)["bundles_to_node_id"]
        return [node_by_bundle[bundle] for bundle in self._bundle_of]

    def release(self) -> None:
        """Release the reserved resources."""
        if self._group is not None:
            remove_placement_group(self._group)
            self._group = None
