"""A Ray cluster of two nodes on this machine, in a process of its own: `python -m tests.webapp.worker.ray_nodes`.

Prints the address as JSON once both nodes are up, and ends with its standard input. It needs RAY_AUTH_TOKEN.
"""

from __future__ import annotations

import json
import sys

HEAD_CPUS, NODE_CPUS = 1, 1
_STORE = 100 * 2**20


def main() -> None:
    """Start the nodes, print the address, and shut them down when the input ends."""
    from ray.cluster_utils import Cluster  # the tests read the sizes above where Ray may be missing

    head = {
        "num_cpus": HEAD_CPUS,
        "num_gpus": 0,
        "include_dashboard": False,
        "object_store_memory": _STORE,
        "_system_config": {"worker_niceness": 0},
    }
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        cluster.add_node(num_cpus=NODE_CPUS, num_gpus=0, object_store_memory=_STORE)
        sys.stdout.write(json.dumps({"address": cluster.address}) + "\n")
        sys.stdout.flush()
        sys.stdin.read()
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
