"""PostgreSQL and Redis for a benchmark of the site, in a temporary folder."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from webapp.services.addresses import free_port
from webapp.services.child_process import Program, spawn, stop, wait_ready
from webapp.services.postgres import Postgres
from webapp.services.redis import Redis


@contextmanager
def servers() -> Iterator[None]:
    """Start PostgreSQL (as durable as the product's) and Redis, and set Django up to use them."""
    home = Path(tempfile.mkdtemp(prefix="echoscope-bench-"))
    postgres = Postgres(home / "postgres", free_port(), secrets.token_urlsafe(8))
    redis = Redis(home / "redis", free_port(), secrets.token_urlsafe(8))
    os.environ.update(
        DJANGO_SETTINGS_MODULE="webapp.settings",
        ECHOSCOPE_DATA_DIR=str(home),
        DATABASE_URL=postgres.url(),
        REDIS_URL=redis.url(),
    )
    running: list[tuple[Program, Any]] = []
    try:
        postgres.initialise()
        for program in (postgres.program(home / "postgres.log"), redis.program(home / "redis.log")):
            running.append((program, spawn(program)))
            wait_ready(*running[-1], 60)
        import django
        from django.core.management import call_command

        django.setup()
        postgres.create_database("echoscope")
        call_command("migrate", verbosity=0)
        yield
    finally:
        from django.db import connections

        connections.close_all()
        for program, process in reversed(running):
            stop(program, process)
        shutil.rmtree(home, ignore_errors=True)
