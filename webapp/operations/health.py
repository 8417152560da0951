"""Liveness and readiness, for load balancers, supervisors and Kubernetes probes."""

from __future__ import annotations

import shutil
import threading
from dataclasses import dataclass
from functools import cache

import psycopg
import redis
from django.conf import settings
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.operations import backup_schedule
from webapp.operations.prometheus import has_token

DATABASE_TIMEOUT = 5.0
REDIS_TIMEOUT = 2.0
MIN_FREE_BYTES = 200_000_000


_one_check = threading.Lock()


@dataclass(frozen=True)
class Check:
    """Result of a check. The site cannot serve pages while a `needed` check fails."""

    ok: bool
    words: str
    needed: bool = True


@cache
def _migrations() -> frozenset[tuple[str, str]]:
    """Return (app, name) of every migration of this version; read from disk once."""
    return frozenset(MigrationLoader(None).graph.nodes)


def _applied_migrations() -> frozenset[tuple[str, str]]:
    """Return (app, name) of every migration in the database, over a separate connection. Raises psycopg.Error."""
    parameters = connection.get_connection_params() | {"connect_timeout": round(DATABASE_TIMEOUT)}
    parameters.pop("cursor_factory", None)
    with psycopg.connect(**parameters, autocommit=True) as session:
        try:
            rows = session.execute("SELECT app, name FROM django_migrations").fetchall()
        except psycopg.errors.UndefinedTable:
            return frozenset()
    return frozenset((app, name) for app, name in rows)


def database() -> Check:
    """Check that PostgreSQL answers and all migrations of this version are applied.

    The connection is separate, one at a time: requests may use up the pool, which is no reason to restart the process.
    """
    if not _one_check.acquire(timeout=DATABASE_TIMEOUT):
        return Check(False, "PostgreSQL does not answer: another check has not ended")
    try:
        missing = _migrations() - _applied_migrations()
    except psycopg.Error as error:
        return Check(False, f"PostgreSQL does not answer: {(str(error).strip() or 'no reason given').splitlines()[0]}")
    finally:
        _one_check.release()
    if missing:
        return Check(False, f"{len(missing)} migrations are missing: run python manage.py prepare")
    return Check(True, "PostgreSQL answers, all migrations are applied")


def broker() -> Check:
    """Check that Redis answers. Without it, pages poll and runs start at the workers' next poll."""
    client = redis.Redis.from_url(
        settings.REDIS_URL, socket_connect_timeout=REDIS_TIMEOUT, socket_timeout=REDIS_TIMEOUT
    )
    try:
        client.ping()
    except (redis.RedisError, OSError) as error:
        return Check(False, f"Redis does not answer ({error}): live pages poll, queued runs wait", needed=False)
    finally:
        client.close()
    return Check(True, "Redis answers", needed=False)


def disk() -> Check:
    """Check the free space for runs."""
    free = shutil.disk_usage(settings.ECHOSCOPE_DATA_DIR).free
    words = f"{free / 1e9:.1f} GB free for runs"
    return Check(free >= MIN_FREE_BYTES, words, needed=False)


def backup() -> Check:
    """Check that there is a verified backup of the last night, if backups are configured."""
    problem = backup_schedule.problem(timezone.now())
    return Check(not problem, problem or "there is a verified backup, or none is configured", needed=False)


@require_safe
@never_cache
def alive(request: HttpRequest) -> HttpResponse:
    """Liveness: 200 while this process answers. Other checks are omitted: a restart would not fix them."""
    return HttpResponse("ok", content_type="text/plain")


@require_safe
@never_cache
def ready(request: HttpRequest) -> JsonResponse:
    """Readiness: 200 if the process can serve requests, else 503.

    With ECHOSCOPE_METRICS_TOKEN, it adds the messages of all checks, which name errors and free space.
    """
    checks = {"database": database(), "redis": broker(), "disk": disk(), "backup": backup()}
    serving = all(check.ok for check in checks.values() if check.needed)
    facts: dict[str, dict[str, object]] = {name: {"ok": check.ok} for name, check in checks.items()}
    if has_token(request):
        for name, check in checks.items():
            facts[name]["message"] = check.words
    return JsonResponse({"ready": serving, "checks": facts}, status=200 if serving else 503)
