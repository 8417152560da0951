"""Migrations that rename models keep the rows of existing installations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.apps.registry import Apps
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from tests.webapp.conftest import People
from webapp.alerts.models import DeliveryAttempt, Rule, StalledRun
from webapp.annotations.models import AnnotationVersion, MailPreference
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db(transaction=True)
APPS = ("alerts", "annotations")


def migrate(name: str) -> Apps:
    targets = [(app, name) for app in APPS]
    executor = MigrationExecutor(connection)
    executor.migrate(targets)
    return MigrationExecutor(connection).loader.project_state(targets).apps


@pytest.fixture
def before() -> Iterator[Apps]:
    yield migrate("0001_initial")
    migrate("0002_renamed_models")


def test_rows_survive_the_renaming_of_their_models(before: Apps, people: People, run: Run) -> None:
    now = timezone.now()
    rule = Rule.objects.create(team=people.team, author=people.owner, name="Collapse")
    delivery = before.get_model("alerts", "Delivery").objects.create(
        rule_id=rule.pk, run_id=run.pk, event="trapped", key="alarm:1:1", payload={}
    )
    before.get_model("alerts", "Try").objects.create(delivery=delivery, at=now, milliseconds=12, ok=False, answer="500")
    before.get_model("alerts", "Standstill").objects.create(run_id=run.pk, state="queued", seq=3, since=now)
    before.get_model("annotations", "Wish").objects.create(user_id=people.owner.pk, mail=False)
    assert not connection.introspection.table_names().count("alerts_deliveryattempt")
    migrate("0002_renamed_models")
    assert DeliveryAttempt.objects.get(delivery_id=delivery.pk).answer == "500"
    assert StalledRun.objects.get(run=run).seq == 3
    assert not MailPreference.objects.get(user=people.owner).mail
    assert not AnnotationVersion.objects.exists()
