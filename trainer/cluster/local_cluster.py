"""Ray cluster of one node, reachable from this machine only, which ends with this process."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psutil
import ray
from ray._private import ray_constants
from ray.exceptions import RayError

from trainer.memory.available import available_memory

QUIET: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
"""Options of `ray.init`: logs stay in Ray's files."""
_START_ATTEMPTS = 3
_MIN_OBJECT_STORE_BYTES = 128 * 2**20
_OBJECT_STORE_BYTES = 512 * 2**20
"""Object store for batches and trajectories, in addition to the weights."""
_MAX_SOCKET_PATH = 103
"""Bytes: the limit of macOS; it is 107 on Linux."""
_LONGEST_SOCKET = "/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store"
"""The suffix that Ray appends to its folder."""
_STAY_LOCAL_VARIABLE = ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR
"""Ray's variable for systems on which it serves one machine; false makes it bind its ports to 127.0.0.1 everywhere."""
_START_FAILURES = (RayError, OSError, RuntimeError, ValueError, AssertionError)


def is_start_failure(error: Exception) -> bool:
    """True if `ray.init` may raise this exception for a failed start or connection.

    It also raises a bare Exception, if its processes take longer than half a minute or dashboards are missing.
    """
    return isinstance(error, _START_FAILURES) or type(error) is Exception


def start_local_cluster(slots: int, object_store_bytes: int) -> str:
    """Start a cluster of one node on this machine that ends with this process, and connect to it.

    Returns its folder of logs and sockets, which Ray leaves behind.

    Its ports are bound to 127.0.0.1 and require a token that is generated here, which other users of the machine do not
    have.

    Args:
        slots: CPUs that the node claims to have, if the machine has fewer: actors may share cores.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # send no usage statistics to the Ray project
    if "RAY_AUTH_TOKEN_PATH" not in os.environ:  # otherwise Ray writes one into the home folder
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    folder = _short_folder()
    with _bound_to_loopback():
        for attempt in range(1, _START_ATTEMPTS + 1):
            earlier = psutil.Process().children()
            try:
                ray.init(
                    address="local",
                    num_cpus=max(os.cpu_count() or 1, slots),
                    include_dashboard=False,
                    _temp_dir=folder,
                    object_store_memory=object_store_bytes,
                    _system_config={"worker_niceness": 0},  # the default of 15 starves actors if other programs run
                    **QUIET,
                )
            except Exception as error:
                _end_children(earlier)
                if attempt == _START_ATTEMPTS or not is_start_failure(error):
                    shutil.rmtree(folder, ignore_errors=True)
                    raise
            else:
                break
    return folder


def _short_folder() -> str:
    """Create a temporary folder in which the paths of Ray's sockets are short enough. Raises OSError."""
    for parent in (tempfile.gettempdir(), "/tmp", "/dev/shm"):  # the last one works in sandboxes without the others
        with suppress(OSError):
            folder = tempfile.mkdtemp(prefix="ray-", dir=parent)
            if len(os.fsencode(folder + _LONGEST_SOCKET)) <= _MAX_SOCKET_PATH:
                return folder
            os.rmdir(folder)
    raise OSError("no temporary folder has a path that is short enough for its sockets: set TMPDIR to another one")


def object_store_bytes(policy_bytes: int) -> int:
    """Two versions of the weights, the policy's files and data in transit, but at most a third of the free memory."""
    wanted, memory = _OBJECT_STORE_BYTES + 4 * policy_bytes, available_memory()
    return wanted if memory is None else max(_MIN_OBJECT_STORE_BYTES, min(wanted, memory[0] // 3))


@contextmanager
def _bound_to_loopback() -> Iterator[None]:
    """Make Ray's processes started within the block, and their children, bind their ports to 127.0.0.1 only.

    If the node's address given to `ray.init` is 127.0.0.1, Ray replaces it by the machine's own address.
    """
    former, clusters = os.environ.get(_STAY_LOCAL_VARIABLE), ray_constants.ENABLE_RAY_CLUSTER
    os.environ[_STAY_LOCAL_VARIABLE], ray_constants.ENABLE_RAY_CLUSTER = "0", False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = clusters
        if former is None:
            del os.environ[_STAY_LOCAL_VARIABLE]
        else:
            os.environ[_STAY_LOCAL_VARIABLE] = former


def _end_children(earlier: Sequence[psutil.Process]) -> None:
    """End the remains of a failed start: child processes that did not exist before."""
    ray.shutdown()
    for process in psutil.Process().children():
        if process not in earlier:
            process.kill()
            process.wait()
