"""Definitions of the site's programs: web, worker, clock."""

from __future__ import annotations

import http.client
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from webapp.core.env import stop_seconds, variable
from webapp.services.addresses import ROOT
from webapp.services.child_process import Program
from webapp.services.liveness_checks import LivenessAnswer
from webapp.worker import liveness
from webapp.worker.hardware import describe_gpus

CELERY = (sys.executable, "-m", "celery", "--quiet", "-A", "webapp.celery")
"""The banner is off: its output fails if the log is on a full disk, and then the program, too."""
MAX_CONNECTIONS = "12000"
"""Connections of the web server, websockets included; further ones get 503."""
HTTP = "webapp.services.request_deadlines:DeadlineProtocol"
WEBSOCKETS = "webapp.live.shared_frames:SharedFrameProtocol"
STOP_MARGIN = 10.0
"""Seconds for the worker to end after its runs, which write a checkpoint first."""
SIGN_AGE = 12.0
"""Seconds since the worker's last sign of life, which it gives every five, until it counts as silent."""
RELOADED_FOLDERS = ("webapp", "templates", "static")
RELOADED_FILES = ("*.py", "*.html", "*.txt", "*.css", "*.js", "*.svg")


def applications(host: str, port: int, env: Mapping[str, str], logs: Path, *, reload: bool = False) -> list[Program]:
    """Return the site's programs, which need a migrated database."""
    has_url = any(os.environ.get(name) for name in ("ECHOSCOPE_URL", "ECHOSCOPE_ORIGINS"))
    env = dict(env) if has_url else {**env, "ECHOSCOPE_URL": f"http://localhost:{port}"}  # for links in e-mails
    return [web(host, port, env, logs, reload=reload), worker(env, logs), clock(env, logs)]


def web(host: str, port: int, env: Mapping[str, str], logs: Path, *, reload: bool = False) -> Program:
    """Return the web server for pages and websockets.

    `reload` means debug mode, with restarts after changes of code.
    """
    argv = [sys.executable, "-m", "uvicorn", "webapp.asgi:application", "--host", host, "--port", str(port)]
    argv += ["--no-access-log", "--timeout-graceful-shutdown", "3", "--log-level", "warning"]
    argv += ["--limit-concurrency", MAX_CONNECTIONS, "--timeout-keep-alive", "20", "--http", HTTP]
    argv += ["--ws", WEBSOCKETS, "--ws-ping-interval", "0"]  # consumers send pings, which also find silent pages
    if reload:
        argv += ["--reload", *(word for folder in RELOADED_FOLDERS for word in ("--reload-dir", str(ROOT / folder)))]
        argv += [word for pattern in RELOADED_FILES for word in ("--reload-include", pattern)]
        env = {**env, "ECHOSCOPE_DEBUG": "1"}
    return Program(
        name="Web",
        argv=argv,
        log=logs / "web.log",
        ready=lambda: answers(host, port),
        # A debugger may block the program.
        alive=lambda: LivenessAnswer.YES if reload or _status(host, port) else LivenessAnswer.NO,
        env=env,
        folder=ROOT,
    )


def worker(env: Mapping[str, str], logs: Path) -> Program:
    """Return the worker, which claims ECHOSCOPE_MAX_RUNS queued runs at a time: one per GPU plus one by default."""
    sign = Path(variable(liveness.VARIABLE) or logs / "worker.alive")
    concurrency = variable("ECHOSCOPE_MAX_RUNS") or str(max(1, len(describe_gpus())))
    argv = [*CELERY, "worker", "--loglevel", "INFO", "--without-mingle"]
    return Program(
        name="Worker",
        argv=[*argv, "--without-gossip", "--concurrency", concurrency, "--hostname", "worker@%h"],
        log=logs / "worker.log",
        ready=lambda: True,  # runs wait in the queue until it listens
        alive=lambda: LivenessAnswer.NO if liveness.problem(sign, SIGN_AGE) else LivenessAnswer.YES,
        prepare=lambda: sign.unlink(missing_ok=True),
        env={**env, liveness.VARIABLE: str(sign)},
        folder=ROOT,
        stop_seconds=stop_seconds() + STOP_MARGIN,
    )


def clock(env: Mapping[str, str], logs: Path) -> Program:
    """Return the scheduler of periodic jobs: lost runs, pruning, alerts, e-mails."""
    argv = [*CELERY, "beat", "--pidfile", "", "--loglevel", "WARNING"]
    return Program(name="Clock", argv=argv, log=logs / "clock.log", ready=lambda: True, env=env, folder=ROOT)


def answers(host: str, port: int) -> bool:
    """Return True if the web server answers requests."""
    status = _status(host, port)
    return status is not None and status < 500


def _status(host: str, port: int) -> int | None:
    """Return the status of the health check; None without an answer."""
    connection = http.client.HTTPConnection("127.0.0.1" if host in {"0.0.0.0", "::"} else host, port, timeout=2)
    try:
        connection.request("GET", "/healthz", headers={"Host": "localhost"})
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
