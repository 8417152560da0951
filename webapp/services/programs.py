"""The programs of a running Echoscope besides its servers: web, worker, clock. Starting them is done elsewhere."""

from __future__ import annotations

import http.client
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from webapp.core.env import variable
from webapp.services.addresses import ROOT
from webapp.services.child_process import Program
from webapp.worker.hardware import describe_gpus


def applications(host: str, port: int, env: Mapping[str, str], logs: Path) -> list[Program]:
    """The programs made of our own code, to be started once the database is ready."""
    known = any(os.environ.get(name) for name in ("ECHOSCOPE_URL", "ECHOSCOPE_ORIGINS"))
    env = dict(env) if known else {**env, "ECHOSCOPE_URL": f"http://localhost:{port}"}  # for addresses in e-mails
    return [web(host, port, env, logs), worker(env, logs), clock(env, logs)]


def web(host: str, port: int, env: Mapping[str, str], logs: Path) -> Program:
    """Pages and websockets."""
    argv = [sys.executable, "-m", "uvicorn", "webapp.asgi:application", "--host", host, "--port", str(port)]
    return Program(
        name="Web",
        argv=[*argv, "--no-access-log", "--timeout-graceful-shutdown", "3", "--log-level", "warning"],
        log=logs / "web.log",
        ready=lambda: answers(host, port),
        env=env,
        folder=ROOT,
    )


def worker(env: Mapping[str, str], logs: Path) -> Program:
    """Takes runs from the queue. ECHOSCOPE_MAX_RUNS says how many at a time; else one for each GPU.

    Without a GPU one run fills a machine.
    """
    at_once = variable("ECHOSCOPE_MAX_RUNS") or str(max(1, len(describe_gpus())))
    argv = [sys.executable, "-m", "celery", "-A", "webapp.celery", "worker", "--loglevel", "INFO", "--without-mingle"]
    return Program(
        name="Worker",
        argv=[*argv, "--without-gossip", "--concurrency", at_once, "--hostname", "worker@%h"],
        log=logs / "worker.log",
        ready=lambda: True,  # runs wait in the queue until it listens
        env=env,
        folder=ROOT,
        stop_seconds=25.0,  # a run writes its checkpoint first
    )


def clock(env: Mapping[str, str], logs: Path) -> Program:
    """Does the small jobs that come round again: looking for lost runs, pruning, alerts, e-mails."""
    argv = [sys.executable, "-m", "celery", "-A", "webapp.celery", "beat", "--pidfile", "", "--loglevel", "WARNING"]
    return Program(name="Clock", argv=argv, log=logs / "clock.log", ready=lambda: True, env=env, folder=ROOT)


def answers(host: str, port: int) -> bool:
    """Whether the web process serves requests."""
    connection = http.client.HTTPConnection("127.0.0.1" if host in {"0.0.0.0", "::"} else host, port, timeout=2)
    try:
        connection.request("GET", "/healthz", headers={"Host": "localhost"})
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
