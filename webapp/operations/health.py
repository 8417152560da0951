"""Whether this process lives and whether it can do its work, for load balancers, supervisors and Kubernetes probes."""

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

PATIENCE = 2.0  # seconds that Redis may take to answer
SPACE = 200_000_000


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. Without a `needed` one the site serves nothing sensible."""

    ok: bool
    words: str
    needed: bool = True


@cache
def _migrations() -> frozenset[tuple[str, str]]:
    """(app, name) of every migration of this version; read from disk once."""
    return frozenset(MigrationLoader(None).graph.nodes)


def database() -> Check:
    """PostgreSQL answers, and every migration of this version was made."""
    try:
        missing = _migrations() - MigrationRecorder(connection).applied_migrations().keys()
    except (DatabaseError, InterfaceError) as error:
        return Check(False, f"PostgreSQL does not answer: {str(error).strip().splitlines()[0]}")
    if missing:
        return Check(False, f"{len(missing)} migrations are missing: run python manage.py prepare")
    return Check(True, "PostgreSQL answers, all migrations are made")


def wake_up_calls() -> Check:
    """Redis answers. Without it pages poll, and runs start when a worker looks by itself."""
    client = redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=PATIENCE, socket_timeout=PATIENCE)
    try:
        client.ping()
    except (redis.RedisError, OSError) as error:
        return Check(False, f"Redis does not answer ({error}): live pages poll, queued runs wait", needed=False)
    finally:
        client.close()
    return Check(True, "Redis answers", needed=False)


def disk() -> Check:
    """There is room where runs are written."""
    free = shutil.disk_usage(settings.ECHOSCOPE_DATA_DIR).free
    words = f"{free / 1e9:.1f} GB free where runs are written"
    return Check(free >= SPACE, words, needed=False)


@require_safe
@never_cache
def alive(request: HttpRequest) -> HttpResponse:
    """This process answers. Nothing else is looked at: restarting it would mend nothing else."""
    return HttpResponse("ok", content_type="text/plain")


@require_safe
@never_cache
def ready(request: HttpRequest) -> JsonResponse:
    """200 if requests may be sent here, 503 if not; in both cases every check with its words."""
    checks = {"database": database(), "redis": wake_up_calls(), "disk": disk()}
    serving = all(check.ok for check in checks.values() if check.needed)
    facts = {name: {"ok": check.ok, "message": check.words} for name, check in checks.items()}
    return JsonResponse({"ready": serving, "checks": facts}, status=200 if serving else 503)
