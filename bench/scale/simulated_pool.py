"""Pool of actors with the simulated engine, of which any number can be used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ray

from bench.scale.simulated_engine import SimulatedActor
from trainer.cluster.connection import ClusterConnection
from trainer.cluster.pool_state import PoolMember
from trainer.cluster.ray_rollout_pool import RayRolloutPool
from trainer.cluster.transfer import PolicyFiles
from trainer.config.run import RunConfig
from trainer.journal.writer import Journal
from trainer.paths import POCKET_CHECKPOINT
from trainer.policy.load import load
from trainer.rollout.environment_mix import get_shares, train_plans
from trainer.rollout.runner import RolloutRequest
from trainer.rollout.token_stream import TokenStream

ROWS = 8
"""Number of trajectories that an actor plays simultaneously."""


class SimulatedPool(RayRolloutPool):
    """See `RayRolloutPool`; `use` chooses how many of its actors play."""

    actor_class = SimulatedActor
    _everyone: list[PoolMember] | None = None

    def use(self, actors: int, scale: float = 1.0) -> None:
        """Play only with the first actors, whose latencies are multiplied by a factor."""
        self._everyone = self._everyone or list(self._members)
        self._members = self._everyone[:actors]
        ray.get([member.handle.set_scale.remote(scale) for member in self._members])

    def close(self) -> None:
        """End all actors."""
        self._members = self._everyone or self._members
        super().close()


def config(actors: int, turns: int, staleness: int = 1, iterations: int = 100) -> RunConfig:
    """Configure groups of `ROWS` trajectories of this many turns, one group per session."""
    return RunConfig.model_validate(
        {
            "iterations": iterations,
            "policy": {"model": str(POCKET_CHECKPOINT), "threads": 1, "device": "cpu"},
            "rollout": {
                "groups": 2 * actors,
                "group_size": ROWS,
                "groups_per_session": 1,
                "max_turns": turns,
                "max_actions": 50,
                "max_staleness": staleness,
            },
            "algorithm": {"tis_cap": 2},
            "cluster": {"rollout_actors": actors, "resources": {"rollout_cpus": 0.5}},
        }
    )


def request(settings: RunConfig, iteration: int, groups: int) -> RolloutRequest:
    """Return a request for an iteration's first groups."""
    plans = train_plans(settings, get_shares(settings), iteration)[:groups]
    return RolloutRequest(plans, iteration, split="train", temperature=1.0)


@contextmanager
def simulated_pool(settings: RunConfig) -> Iterator[SimulatedPool]:
    """Start a pool on a separate cluster, which writes a real journal."""
    policy = load(POCKET_CHECKPOINT, settings.policy)
    files, cluster = PolicyFiles.of(policy), settings.cluster
    with TemporaryDirectory() as folder:
        connection = ClusterConnection(cluster, lambda: False, print, files.size)
        bundles = connection.placement.bundles(cluster.rollout_actors, cluster.rollout_reservation.cpus, 0.0, "cpu")
        connection.placement.reserve(bundles)
        written: dict[str, Any] = {"emit": Journal(Path(folder)).write, "notify": print}
        try:
            pool = SimulatedPool(
                settings,
                connection.put(files),
                connection,
                bundles,
                stop=lambda: False,
                stream=TokenStream(Path(folder)),
                **written,
            )
            yield pool
            pool.close()
        finally:
            connection.close()
