"""The Ray cluster of a run: connection, reserved resources, and models as objects that actors load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.config.run import PolicyConfig, RunConfig
from trainer.loops.session import RunSession
from trainer.memory.preflight import PreflightResult
from trainer.policy import shapes
from trainer.policy.load import ModelError, Policy, load

if TYPE_CHECKING:
    from trainer.cluster.actor_placement import Bundle
    from trainer.cluster.connection import ClusterConnection


@dataclass(frozen=True)
class ClusterSetup:
    """Starting point of a run's actors.

    Attributes:
        connection: connection with reserved bundles, first of the learners, then of the rollout actors.
        learners, rollouts: resources of each actor.
        files: reference to the policy's `PolicyFiles`.
        reference: reference to the `PolicyFiles` of the initial policy; None: no reference is kept.
        plan: result of the memory check of nodes with CPU actors.
    """

    connection: ClusterConnection
    learners: list[Bundle]
    rollouts: list[Bundle]
    files: Any
    reference: Any
    plan: PreflightResult


def needs_cluster(config: RunConfig) -> bool:
    """True if any part of the run is a Ray actor."""
    return config.cluster.rollout_actors > 0 or config.cluster.ranks(config.kind) > 0


def computes_here(config: RunConfig) -> bool:
    """True if the driver of the run itself samples or learns."""
    return config.cluster.driver_computes(config.kind)


def driver_policy(config: RunConfig) -> PolicyConfig:
    """Return the policy's settings in the driver's process: on the CPU if only actors compute with it."""
    return config.policy if computes_here(config) else config.policy.model_copy(update={"device": "cpu"})


def placement_as_text(learners: Sequence[str], rollouts: Sequence[str]) -> str:
    """Describe the actors by node, as in "learners 1-2 on gpu1; rollout actors 1, 2, 4 on gpu2".

    Args:
        learners, rollouts: name of each actor's node, ordered by the actors' numbers.
    """
    parts = []
    for kind, nodes in (("learner", learners), ("rollout actor", rollouts)):
        for node in dict.fromkeys(nodes):
            numbers = [number for number, actor_node in enumerate(nodes, start=1) if actor_node == node]
            parts.append(f"{kind}{'s' if len(numbers) > 1 else ''} {_ranges(numbers)} on {node}")
    return "; ".join(parts)


def _ranges(numbers: Sequence[int]) -> str:
    """Format ascending numbers, as in "1-3, 5"."""
    starts = [number for number in numbers if number - 1 not in numbers]
    ends = [number for number in numbers if number + 1 not in numbers]
    return ", ".join(str(start) if start == end else f"{start}-{end}" for start, end in zip(starts, ends, strict=True))


def reserve_cluster(session: RunSession, policy: Policy, reference: Path | str | None) -> ClusterSetup:
    """Connect to the cluster and reserve the run's resources, until the attempt ends.

    Args:
        policy: the policy of the newest checkpoint.
        reference: source of the initial policy, if it is kept.
    Raises:
        ModelError: Ray is not installed.
        ClusterError: no cluster answers, or it is too small.
        OutOfMemoryError: the actors of a node do not fit into its memory.
        Interrupted: a stop was requested.
    """
    try:
        from trainer.cluster.connection import ClusterConnection
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise ModelError(
            "cluster.rollout_actors or cluster.learners is above 0, which needs Ray: install it (pip install "
            "'.[scale]'), or set both to 0"
        ) from error
    from trainer.cluster.node_memory import check_nodes
    from trainer.cluster.transfer import PolicyFiles

    config, cluster, device = session.config, session.config.cluster, session.config.policy.device
    files = PolicyFiles.of(policy)
    connection = ClusterConnection(cluster, session.stop, session.warn, files.size)
    session.on_close(connection.close)
    ranks, pairs = cluster.ranks(config.kind), cluster.pairs(config.kind)
    of_kind = partial(connection.placement.bundles, device=device, paired=pairs > 0)
    learners = of_kind(ranks, *cluster.learner_reservation)
    rollouts = of_kind(cluster.rollout_actors, *cluster.rollout_reservation)
    connection.placement.reserve([*learners, *rollouts], pairs)
    if connection.address:
        places, count = connection.placement.actor_nodes(), len(learners)
        session.inform(f"Placed on the Ray cluster: {placement_as_text(places[:count], places[count:])}.")
    learn_at, play_at = connection.placement.nodes(0, learners), connection.placement.nodes(len(learners), rollouts)
    memory = connection.free_memory(learn_at | play_at)
    plan = check_nodes(config, shapes.read(policy.model.config.to_dict()), learn_at, play_at, memory)
    if plan.warning:
        session.warn(plan.warning)
    initial = None
    if learners and reference is not None:
        initial = connection.put(PolicyFiles.of(load(reference, config.policy.model_copy(update={"device": "cpu"}))))
    return ClusterSetup(connection, learners, rollouts, connection.put(files), initial, plan)
