"""A Ray cluster of its own for the tests of this folder; they are skipped where Ray is not installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.trainer.threads import THREADS

ray = pytest.importorskip("ray")

from trainer.cluster.local_cluster import start_local_cluster  # noqa: E402 Ray is present

SLOTS = 8
"""CPUs that the cluster claims to have: actors are slots, not cores."""


@pytest.fixture(scope="session")
def cluster() -> Iterator[None]:
    """One node, started once: runs of this process use it instead of starting their own."""
    os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    folder = start_local_cluster(SLOTS, object_store_bytes=256 * 2**20)
    yield
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)
