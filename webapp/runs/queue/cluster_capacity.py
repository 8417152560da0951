"""Ray cluster of a worker: free resources for a run's actors, and runs that could wait for them.

The final decision is Ray's placement group: here the size of each bundle is compared with the nodes, not their
combinations, so that no run is refused that Ray could place. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainer.config.resources import ActorRequest

_ROUNDING = 1e-6
"""Ray counts in steps of 1e-4."""

Actors = Sequence[ActorRequest]


@dataclass(frozen=True)
class NodeCapacity:
    """A node of a cluster, in Ray's units."""

    name: str
    cpus: float
    cpus_free: float
    gpus: float
    gpus_free: float


@dataclass(frozen=True)
class ClusterCapacity:
    """Nodes of a worker's cluster.

    Attributes:
        problem: reason why it accepts no driver at present; empty if it does.
        cpus_free, gpus_free: sums over the nodes, without resources of runs that have not started their actors yet.
    """

    nodes: tuple[NodeCapacity, ...] = ()
    problem: str = ""
    cpus_free: float = 0.0
    gpus_free: float = 0.0

    @property
    def cpus(self) -> float:
        return sum(node.cpus for node in self.nodes)

    @property
    def gpus(self) -> float:
        return sum(node.gpus for node in self.nodes)

    def when_idle(self) -> ClusterCapacity:
        """Return the same cluster without any run."""
        nodes = tuple(replace(node, cpus_free=node.cpus, gpus_free=node.gpus) for node in self.nodes)
        return ClusterCapacity(nodes, self.problem, self.cpus, self.gpus)

    def demand(self, actors: Actors) -> tuple[float, float]:
        """Return (CPUs, GPUs) that actors use on this cluster."""
        sizes = [(kind.count, kind.cpus, self._gpus_per_actor(kind)) for kind in actors]
        return sum(count * cpus for count, cpus, _ in sizes), sum(count * gpus for count, _, gpus in sizes)

    def holds(self, actors: Actors) -> bool:
        """Return True if the actors fit the free resources."""
        if self.problem or not self.nodes:
            return False
        cpus, gpus = self.demand(actors)
        enough = cpus <= self.cpus_free + _ROUNDING and gpus <= self.gpus_free + _ROUNDING
        return enough and all(self._places(kind) >= kind.count for kind in actors)

    def _places(self, kind: ActorRequest) -> int:
        """Return the number of actors of a kind for which the nodes have room if there are no other actors."""
        return sum(
            min(
                int((free + _ROUNDING) / size)
                for free, size in ((node.cpus_free, kind.cpus), (node.gpus_free, self._gpus_per_actor(kind)))
                if size
            )
            for node in self.nodes
        )

    def _gpus_per_actor(self, kind: ActorRequest) -> float:
        return float(self.gpus > 0) if kind.gpus is None else kind.gpus


def get_cluster_capacity(description: Mapping[str, Any], held: Iterable[Actors]) -> ClusterCapacity | None:
    """Return the capacity of the cluster in a worker's heartbeat; None without one.

    Free resources are the smaller of the measured value and the total minus all requests, as for the memory of
    machines: a run that has just started has not placed its actors yet.

    Args:
        held: actors of the worker's runs.
    """
    if not description:
        return None
    nodes = tuple(
        NodeCapacity(node["name"], node["cpus"], node["cpus_free"], node["gpus"], node["gpus_free"])
        for node in description["nodes"]
    )
    cluster = ClusterCapacity(nodes, description["problem"])
    claimed = [cluster.demand(actors) for actors in held]
    return replace(
        cluster,
        cpus_free=_left(cluster.cpus, sum(node.cpus_free for node in nodes), sum(cpus for cpus, _ in claimed)),
        gpus_free=_left(cluster.gpus, sum(node.gpus_free for node in nodes), sum(gpus for _, gpus in claimed)),
    )


def _left(total: float, free: float, claimed: float) -> float:
    return max(0.0, min(free, total - claimed))


def requested_gpus(actors: Actors) -> float:
    """Return the GPUs that actors request if the cluster has any."""
    return sum(kind.count * (1.0 if kind.gpus is None else kind.gpus) for kind in actors)


def shortage(name: str, cluster: ClusterCapacity, actors: Actors) -> str:
    """Describe what actors lack, e.g. "8 GPUs: the cluster of worker a has 16, 2 of them free"; empty if they fit.

    Args:
        name: name of the cluster's worker.
    """
    if cluster.problem:
        return f"the cluster of worker {name}, which takes no run now: the workers page says why"
    if cluster.holds(actors):
        return ""
    cpus, gpus = cluster.demand(actors)
    counts = ((gpus, cluster.gpus, cluster.gpus_free, "GPU"), (cpus, cluster.cpus, cluster.cpus_free, "CPU"))
    scarce = [(need, total, free, unit) for need, total, free, unit in counts if need > free + _ROUNDING]
    if not scarce:
        return f"{_sizes(cluster, actors)}: the free parts of the nodes of worker {name} are too small"
    need, total, free, unit = scarce[0]
    left = "none of them" if not free else f"{free:g} of them"
    return f"{_count(need, unit)}: the cluster of worker {name} has {total:g}, {left} free"


def impossibility(name: str, cluster: ClusterCapacity, actors: Actors) -> str:
    """Describe what actors lack on a cluster that would not fit them even if it were idle; see `shortage`."""
    idle = cluster.when_idle()
    cpus, gpus = idle.demand(actors)
    for need, total, unit in ((gpus, idle.gpus, "GPU"), (cpus, idle.cpus, "CPU")):
        if need > total + _ROUNDING:
            return f"{_count(need, unit)}: the cluster of worker {name} has {total:g} in all"
    return f"{_sizes(idle, actors)}: no node of the cluster of worker {name} is large enough for it"


def _sizes(cluster: ClusterCapacity, actors: Actors) -> str:
    """Return the sizes of the actors, e.g. "actors with 2 CPUs and 1 GPU each"."""
    texts = []
    for kind in actors:
        _, gpus = cluster.demand([replace(kind, count=1)])
        texts.append(_count(kind.cpus, "CPU") + (f" and {_count(gpus, 'GPU')}" if gpus else ""))
    return f"actors with {' or '.join(dict.fromkeys(texts))} each"


def _count(number: float, unit: str) -> str:
    return f"{number:g} {unit}" + ("" if number == 1 else "s")
