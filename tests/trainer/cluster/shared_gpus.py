"""Script: pairs of actors on a cluster that claims to have GPUs. The GPUs of each are written as JSON.

    python -m tests.trainer.cluster.shared_gpus LEARNERS GPUS

Ray assigns GPUs without looking at them, so none need be there.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import ray

from trainer.cluster.connection import ClusterConnection
from trainer.config.run import RunConfig


class Actor:
    """Reports the GPUs that it was given."""

    def gpus(self) -> list[int]:
        return ray.get_gpu_ids()


def main(learners: int, gpus: int) -> None:
    ray.init(address="local", num_cpus=2 * learners, num_gpus=gpus, include_dashboard=False, log_to_driver=False)
    config = RunConfig().with_processes(learners).cluster
    connection = ClusterConnection(config, lambda: False, lambda message: None, policy_bytes=1)
    placement = connection.placement
    bundles = placement.bundles(2 * learners, 1.0, None, "auto", paired=True)
    placement.reserve(bundles, pairs=learners)
    kind: Any = ray.remote(Actor)
    actors = [
        kind.options(num_cpus=1, num_gpus=bundle["GPU"], scheduling_strategy=placement.strategy(number)).remote()
        for number, bundle in enumerate(bundles)
    ]
    sys.stdout.write(json.dumps(ray.get([actor.gpus.remote() for actor in actors])) + "\n")
    ray.shutdown()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
