"""Memory check of a node's CPU actors, before any of them starts."""

from __future__ import annotations

from collections.abc import Mapping

from trainer.config.run import RunConfig
from trainer.memory import preflight
from trainer.memory.estimate import estimate_memory
from trainer.memory.preflight import PreflightResult
from trainer.policy.shapes import ModelShape

Memory = tuple[int, int]
"""(free, total) bytes."""


def check_nodes(
    config: RunConfig,
    shape: ModelShape | None,
    learners: Mapping[str, int],
    rollouts: Mapping[str, int],
    memory: Mapping[str, Memory],
) -> PreflightResult:
    """Compare the memory estimate of a run's actors with the free memory of their nodes.

    The memory that a node's learners leave free is divided equally among its rollout actors.

    Args:
        shape: shape of the policy; None: unknown, nothing is checked.
        learners, rollouts: number of actors by node, without actors on GPUs.
        memory: memory by node, if known.
    Returns:
        The number of trajectories that a rollout actor samples at once, and warnings.
    Raises:
        OutOfMemoryError: the actors of a node do not fit; with memory.preflight=warn a warning instead.
    """
    if config.memory.preflight == "none" or shape is None:
        return PreflightResult()
    limits: list[int] = []
    warnings: list[str] = []
    cluster = config.cluster
    for node, (free, total) in memory.items():
        if count := learners.get(node, 0):
            needed = estimate_memory(config, shape, gpu=False, processes=cluster.learners, role="learn").peak
            result = preflight.check_shape(
                config,
                shape,
                gpu=False,
                free=free // count,
                total=total,
                processes=cluster.learners,
                role="learn",
                who="a learner",
                where=_where(node, count, "learners"),
            )
            warnings.append(result.warning)
            free = max(0, free - count * needed)
        if count := rollouts.get(node, 0):
            result = preflight.check_shape(
                config,
                shape,
                gpu=False,
                free=free // count,
                total=total,
                processes=cluster.rollout_actors,
                role="play",
                who="a rollout actor",
                where=_where(node, count, "rollout actors"),
            )
            warnings.append(result.warning)
            limits += [] if result.rows is None else [result.rows]
    return PreflightResult(min(limits, default=None), " ".join(dict.fromkeys(filter(None, warnings))))


def _where(node: str, count: int, actors: str) -> str:
    return f"node {node}" if count == 1 else f"node {node} for each of its {count} {actors}"
