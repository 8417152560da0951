"""Liveness and readiness, for load balancers, supervisors and Kubernetes probes."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import cache

import redis
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

REDIS_TIMEOUT = 2.0
MIN_FREE_BYTES = 200_000_000


@dataclass(frozen=True)
class Check:
    """Result of a check. The site cannot serve pages while a `needed` check fails."""

    ok: bool
    words: str
    needed: bool = True


@cache
def _migrations() -> frozenset[tuple[str, str]]:
    """(app, name) of every migration of this version; read from disk once."""
    return frozenset(MigrationLoader(None).graph.nodes)


def database() -> Check:
    """Check that PostgreSQL answers and all migrations of this version are applied."""
    try:
        missing = _migrations() - MigrationRecorder(connection).applied_migrations().keys()
    except (DatabaseError, InterfaceError) as error:
        return Check(False, f"PostgreSQL does not answer: {str(error).strip().splitlines()[0]}")
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


@require_safe
@never_cache
def alive(request: HttpRequest) -> HttpResponse:
    """Liveness: 200 while this process answers. Other checks are omitted: a restart would not fix them."""
    return HttpResponse("ok", content_type="text/plain")


@require_safe
@never_cache
def ready(request: HttpRequest) -> JsonResponse:
    """Readiness: 200 if the process can serve requests, else 503; with the message of every check."""
    checks = {"database": database(), "redis": broker(), "disk": disk()}
    serving = all(check.ok for check in checks.values() if check.needed)
    facts = {name: {"ok": check.ok, "message": check.words} for name, check in checks.items()}
    return JsonResponse({"ready": serving, "checks": facts}, status=200 if serving else 503)
