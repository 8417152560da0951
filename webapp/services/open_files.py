"""Limit on the number of files and sockets that this process may have open."""

from __future__ import annotations

import resource

ENOUGH = 65_536


def raise_open_files_limit() -> None:
    """Raise the limit as far as the system allows without privileges, because many systems start programs with 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
