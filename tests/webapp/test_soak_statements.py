"""What the soak test takes for right: statements about claims, and answers to its questions, on the real site."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.utils import timezone

from bench.soak import histories, self_check
from tests.webapp.conftest import People
from webapp.runs.models import DeviceUse, Run, Worker
from webapp.runs.queue import fair_share
from webapp.teams.actions import do_create_token
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


def test_the_site_gives_the_answers_that_the_soak_test_takes_for_right(run: Run, people: People) -> None:
    _, secret = do_create_token(people.team, people.owner, "soak", ["read", "write"])
    member = Client()
    member.force_login(people.owner)
    cookie = f"{settings.SESSION_COOKIE_NAME}={member.cookies[settings.SESSION_COOKIE_NAME].value}"
    for question in self_check.questions(run.slug, cookie, secret):
        answer = Client(raise_request_exception=False).get(question.path, headers=question.headers)
        assert (question.path, answer.status_code) == (question.path, question.status)
        assert question.text in answer.content.decode()


def test_claims_of_a_run_follow_each_other(claimed: Run) -> None:
    now = timezone.now()
    fair_share.begin(claimed, 0, now + timedelta(minutes=1))
    assert histories.overlap_faults(session()) == []
    DeviceUse.objects.update(ended_at=None)
    assert len(histories.overlap_faults(session())) == 1
