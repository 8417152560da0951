"""Dead workers, which have sent no heartbeat for SILENCE.

Their runs are requeued once their leases expire: `do_reap` in webapp/runs/actions.py.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import QuerySet

from webapp.runs.models import Worker

SILENCE = timedelta(seconds=30)


def is_alive(worker: Worker, now: datetime) -> bool:
    """Return True if the worker has sent a heartbeat recently."""
    return now - worker.last_seen_at < SILENCE


def live_workers(now: datetime) -> QuerySet[Worker]:
    """Return the workers that have sent a heartbeat recently, including those that are stopping."""
    return Worker.objects.filter(last_seen_at__gt=now - SILENCE)
