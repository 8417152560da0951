"""Nodes of a Ray cluster with their CPUs and GPUs as JSON lines: a program that a worker of the site runs.

`python -m trainer.cluster.inspection ADDRESS SECONDS` prints a line every SECONDS until its parent process has ended.
It reads the tables of the cluster's control service (GCS): unlike `ray.init` this is not a job of the cluster, and
unlike Ray's state API it needs no dashboard.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import ray
from ray._common.usage.usage_lib import get_cluster_metadata
from ray._private.services import GcsClient, find_node_ids
from ray._private.state import GcsClientOptions, GlobalState
from ray._private.utils import compute_version_info

from trainer.cluster.node_names import ID_LENGTH, node_names

CONNECT_SECONDS = 5.0


def inspect(address: str, state: GlobalState) -> dict[str, Any]:
    """Report on the cluster at an address.

    Returns:
        `problem`: a sentence on why no driver can be started there from this machine, empty if one can; `nodes`: live
        nodes as {id, name, cpus, cpus_free, gpus, gpus_free}, in Ray's units.
    """
    try:
        host, _, port = address.rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
        nodes, free = state.node_table(), state.available_resources_per_node()
        other = _other_versions(address)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        problem = (
            f"No Ray cluster answers at {address} ({reason}). Start one there (ray start --head), correct the address, "
            "or give the worker the token of its nodes (RAY_AUTH_MODE=token, RAY_AUTH_TOKEN_PATH)."
        )
        return {"problem": problem, "nodes": []}
    alive = [node for node in nodes if node["Alive"]]
    return {"problem": other or _no_node_here(address, alive), "nodes": _described(alive, free)}


def _described(nodes: Sequence[Mapping[str, Any]], free: Mapping[str, Mapping[str, float]]) -> list[dict[str, Any]]:
    """Return the nodes, sorted by name."""
    names = node_names(nodes)
    described = []
    for node in nodes:
        id, total = node["NodeID"], node["Resources"]
        left = free.get(id, {})
        described.append(
            {
                "id": id[:ID_LENGTH],
                "name": names[id],
                "cpus": total.get("CPU", 0.0),
                "cpus_free": left.get("CPU", 0.0),
                "gpus": total.get("GPU", 0.0),
                "gpus_free": left.get("GPU", 0.0),
            }
        )
    return sorted(described, key=lambda node: (node["name"], node["id"]))


def _other_versions(address: str) -> str:
    """Say which versions of Python and Ray differ from this process's versions; empty if they agree."""
    metadata = get_cluster_metadata(GcsClient(address=address)) or {}
    theirs = metadata.get("ray_version"), metadata.get("python_version")
    ours = compute_version_info()
    if not metadata or theirs == ours:
        return ""
    return (
        f"The Ray cluster at {address} runs Ray {theirs[0]} on Python {theirs[1]}, this worker has Ray {ours[0]} on "
        f"Python {ours[1]}: install the same versions on all of its nodes and here."
    )


def _no_node_here(address: str, alive: Sequence[Mapping[str, Any]]) -> str:
    """Say that this machine is not a node of the cluster, so that it cannot start a driver; empty if it is one."""
    if find_node_ids() & {node["NodeID"] for node in alive}:
        return ""
    return (
        f"This machine is not a node of the Ray cluster at {address}, and a driver needs one on its own machine: start "
        f"it here (ray start --address {address} --num-cpus 0 --num-gpus 0)."
    )


def main() -> None:
    """Print reports until the parent process ends."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("address", help="host:port of the cluster")
    parser.add_argument("seconds", type=float, help="between two reports")
    arguments = parser.parse_args()
    parent, state = os.getppid(), GlobalState()
    state._initialize_global_state(
        GcsClientOptions.create(arguments.address, None, allow_cluster_id_nil=True, fetch_cluster_id_if_nil=False)
    )
    while os.getppid() == parent:
        sys.stdout.write(json.dumps(inspect(arguments.address, state)) + "\n")
        sys.stdout.flush()
        began = time.monotonic()
        while os.getppid() == parent and time.monotonic() < began + arguments.seconds:
            time.sleep(min(1.0, arguments.seconds))


if __name__ == "__main__":
    main()
