"""Definitions of the site's own programs: web, worker, clock."""

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

CELERY = (sys.executable, "-m", "celery", "--quiet", "-A", "webapp.celery")
"""Without its banner, whose output fails if the log is on a full disk, and with it the program."""
MAX_CONNECTIONS = "2000"
"""Connections of the web server, websockets included; further ones get 503."""
RELOADED_FOLDERS = ("webapp", "templates", "static")
RELOADED_FILES = ("*.py", "*.html", "*.txt", "*.css", "*.js", "*.svg")


def applications(host: str, port: int, env: Mapping[str, str], logs: Path, *, reload: bool = False) -> list[Program]:
    """The site's own programs; they need a migrated database."""
    has_url = any(os.environ.get(name) for name in ("ECHOSCOPE_URL", "ECHOSCOPE_ORIGINS"))
    env = dict(env) if has_url else {**env, "ECHOSCOPE_URL": f"http://localhost:{port}"}  # for links in e-mails
    return [web(host, port, env, logs, reload=reload), worker(env, logs), clock(env, logs)]


def web(host: str, port: int, env: Mapping[str, str], logs: Path, *, reload: bool = False) -> Program:
    """Web server for pages and websockets. `reload`: debug mode, restarted when code, templates or scripts change."""
    argv = [sys.executable, "-m", "uvicorn", "webapp.asgi:application", "--host", host, "--port", str(port)]
    argv += ["--no-access-log", "--timeout-graceful-shutdown", "3", "--log-level", "warning"]
    argv += ["--limit-concurrency", MAX_CONNECTIONS, "--timeout-keep-alive", "20"]
    if reload:
        argv += ["--reload", *(word for folder in RELOADED_FOLDERS for word in ("--reload-dir", str(ROOT / folder)))]
        argv += [word for pattern in RELOADED_FILES for word in ("--reload-include", pattern)]
        env = {**env, "ECHOSCOPE_DEBUG": "1"}
    return Program(name="Web", argv=argv, log=logs / "web.log", ready=lambda: answers(host, port), env=env, folder=ROOT)


def worker(env: Mapping[str, str], logs: Path) -> Program:
    """Worker, which claims queued runs: ECHOSCOPE_MAX_RUNS at a time, default one per GPU plus one without a GPU."""
    concurrency = variable("ECHOSCOPE_MAX_RUNS") or str(max(1, len(describe_gpus())))
    argv = [*CELERY, "worker", "--loglevel", "INFO", "--without-mingle"]
    return Program(
        name="Worker",
        argv=[*argv, "--without-gossip", "--concurrency", concurrency, "--hostname", "worker@%h"],
        log=logs / "worker.log",
        ready=lambda: True,  # runs wait in the queue until it listens
        env=env,
        folder=ROOT,
        stop_seconds=25.0,  # a run writes its checkpoint first
    )


def clock(env: Mapping[str, str], logs: Path) -> Program:
    """Scheduler of periodic jobs: lost runs, pruning, alerts, e-mails."""
    argv = [*CELERY, "beat", "--pidfile", "", "--loglevel", "WARNING"]
    return Program(name="Clock", argv=argv, log=logs / "clock.log", ready=lambda: True, env=env, folder=ROOT)


def answers(host: str, port: int) -> bool:
    """Whether the web server answers requests."""
    connection = http.client.HTTPConnection("127.0.0.1" if host in {"0.0.0.0", "::"} else host, port, timeout=2)
    try:
        connection.request("GET", "/healthz", headers={"Host": "localhost"})
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
