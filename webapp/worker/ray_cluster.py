"""The Ray cluster that a worker represents: its address, and its nodes as reported by a child process.

Ray stays out of the worker's own process. The child imports it once and reads the cluster's tables a few times a minute
(trainer/cluster/inspection.py).
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from envs.sandbox.host_environment import BASIC_NAMES, BASIC_PREFIXES, select
from trainer.config.resources import RAY_ADDRESS_VARIABLE

RAY_PREFIX = "RAY_"
"""Prefix of Ray's variables, including the cluster's token."""
INSPECTION = "trainer.cluster.inspection"
INTERVAL = 10.0
MAX_AGE = 45.0
"""Seconds after which the newest report expires. A child that imports Ray on a busy machine takes a while."""
_RESTART_PAUSE = 10.0
_STOP_TIMEOUT = 5.0
_CONNECTING = "The cluster is being asked for its nodes."
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):(\d{1,5})")

logger = logging.getLogger(__name__)


def configured_address(environ: Mapping[str, str] = os.environ) -> str:
    """Return the address (host:port) of the cluster that this worker represents; empty for none.

    Raises:
        ValueError: it is not such an address, or Ray is not installed here. The message says what to do.
    """
    address = environ.get(RAY_ADDRESS_VARIABLE, "").strip()
    if not address:
        return ""
    if address.startswith("ray://"):
        raise ValueError(
            f"{RAY_ADDRESS_VARIABLE} is {address!r}, but drivers are processes on a node of the cluster and cannot go "
            "through Ray's client server. Name the port of its control service, as in 10.0.0.5:6379, and start a node "
            "on this machine (ray start --address 10.0.0.5:6379 --num-cpus 0 --num-gpus 0)."
        )
    parts = _ADDRESS.fullmatch(address)
    if parts is None or not 0 < int(parts[2]) < 65_536:
        raise ValueError(f"{RAY_ADDRESS_VARIABLE} must be host:port, as in 10.0.0.5:6379, not {address!r}.")
    if importlib.util.find_spec("ray") is None:
        raise ValueError(
            f"{RAY_ADDRESS_VARIABLE} is set, but Ray is not installed here: install it (pip install '.[scale]'), or "
            "leave the variable empty."
        )
    return address


class ClusterMonitor:
    """Newest report on a cluster, from a child process that is restarted when it ends."""

    def __init__(self, address: str, interval: float = INTERVAL) -> None:
        self.address, self.interval = address, interval
        self._lock = threading.Lock()
        self._report: dict[str, Any] = {"problem": _CONNECTING, "nodes": []}
        self._reported_at = time.monotonic()
        self._child: subprocess.Popen[str] | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ray cluster", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        with self._lock:
            child = self._child
        if child is not None:
            child.terminate()
        self._thread.join(_STOP_TIMEOUT)

    def report(self) -> dict[str, Any]:
        """Return the cluster for the worker's heartbeat: {problem, nodes}."""
        with self._lock:
            if time.monotonic() - self._reported_at <= MAX_AGE:
                return self._report
            problem = f"The Ray cluster at {self.address} has not answered for {MAX_AGE:.0f} seconds."
            return {"problem": problem, "nodes": []}

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._read_reports()
            except OSError as error:
                logger.warning("The reports on the Ray cluster at %s cannot be read: %s", self.address, error)
            self._stopped.wait(_RESTART_PAUSE)

    def _read_reports(self) -> None:
        """Read the reports of a child until it ends."""
        command = [sys.executable, "-m", INSPECTION, self.address, str(self.interval)]
        environment = select(os.environ, BASIC_NAMES, (*BASIC_PREFIXES, RAY_PREFIX))
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
            start_new_session=True,  # a Ctrl-C of the worker is for this process, which then ends it
        )
        with self._lock:
            self._child = child
        if self._stopped.is_set():
            child.terminate()
        assert child.stdout is not None
        with child.stdout:
            for line in child.stdout:
                try:
                    report = json.loads(line)
                except ValueError:  # not a report, but a library's output
                    continue
                self._take(report)
        status = child.wait()
        if not self._stopped.is_set():
            logger.warning(
                "The process that watches the Ray cluster at %s ended with status %d; it is started again in %.0f "
                "seconds.",
                self.address,
                status,
                _RESTART_PAUSE,
            )

    def _take(self, report: dict[str, Any]) -> None:
        with self._lock:
            previous_problem = self._report["problem"]
            self._report, self._reported_at = report, time.monotonic()
        if report["problem"] and report["problem"] != previous_problem:
            logger.warning("%s", report["problem"])
        elif previous_problem and not report["problem"]:
            logger.info("The Ray cluster at %s answers: %d nodes.", self.address, len(report["nodes"]))
