"""Readable names of a cluster's nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

ID_LENGTH = 8
"""Number of displayed characters of a node's id."""


def node_names(nodes: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Map each node's id to a unique name: its host's, with the id appended if a host has several nodes.

    Args:
        nodes: nodes in Ray's format, with NodeID, NodeManagerHostname and NodeManagerAddress.
    """
    hosts = {node["NodeID"]: node["NodeManagerHostname"] or node["NodeManagerAddress"] for node in nodes}
    count = Counter(hosts.values())
    return {node: host if count[host] == 1 else f"{host} ({node[:ID_LENGTH]})" for node, host in hosts.items()}
