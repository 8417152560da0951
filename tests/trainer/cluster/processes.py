"""Processes of the tests' cluster, which are all descendants of this one."""

from __future__ import annotations

import psutil


def pids(actor: str) -> list[int]:
    """Processes of the actors of a class, by its name."""
    family = psutil.Process().children(recursive=True)
    return [process.pid for process in family if _title(process).startswith(f"ray::{actor}")]


def listening_addresses() -> set[str]:
    """Addresses to which this process and those of the cluster have bound the ports that they listen at."""
    this = psutil.Process()
    found = set()
    for process in [this, *this.children(recursive=True)]:
        try:
            connections = process.net_connections("tcp")
        except psutil.Error:
            continue
        found |= {one.laddr.ip.removeprefix("::ffff:") for one in connections if one.status == psutil.CONN_LISTEN}
    return found


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
