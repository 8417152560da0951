"""Statements with which the soak test judges claims, on the tables of the site."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from bench.soak import histories
from webapp.runs.models import DeviceUse, Run, Worker
from webapp.runs.queue import fair_share
from webapp.worker.claims import do_claim_run

pytestmark = pytest.mark.django_db


def session() -> psycopg.Connection[Any]:
    """The connection of the test's transaction."""
    connection.ensure_connection()
    return connection.connection  # type: ignore[no-any-return]


@pytest.fixture
def claimed(run: Run) -> Run:
    now = timezone.now()
    worker = Worker.objects.create(name="worker@here", started_at=now, last_seen_at=now)
    return do_claim_run(run.pk, worker, now) or run


def test_a_claim_has_a_lease_and_one_time(claimed: Run) -> None:
    assert histories.claim_faults(session()) == []
    DeviceUse.objects.update(ended_at=timezone.now())
    assert histories.claim_faults(session()) == [f"run {claimed.slug} is starting without a claim and its time"]
    DeviceUse.objects.update(ended_at=None)
    for change in ({"lease": ""}, {"lease_expires_at": None}, {"worker": None}):
        Run.objects.filter(pk=claimed.pk).update(**change)
        assert len(histories.claim_faults(session())) == 1
    Run.objects.update(state=Run.State.QUEUED)
    assert histories.claim_faults(session()) == []


def test_claims_of_a_run_follow_each_other(claimed: Run) -> None:
    now = timezone.now()
    fair_share.begin(claimed, 0, now + timedelta(minutes=1))
    assert histories.overlap_faults(session()) == []
    DeviceUse.objects.update(ended_at=None)
    assert len(histories.overlap_faults(session())) == 1
