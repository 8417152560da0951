"""Rules, receivers and a played trajectory for the tests of notifications."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from tests.webapp.annotations.conftest import member, played, trajectory
from tests.webapp.conftest import People
from tests.webapp.notifications.receiver import Receiver, listening
from webapp.notifications.models import AlertAddress, Rule
from webapp.notifications.rule_actions import do_create_rule
from webapp.notifications.run_events import record_alarms
from webapp.runs.models import Alarm, Run
from webapp.teams.models import Team

__all__ = ["member", "played", "trajectory"]

Make = Callable[..., Rule]


@pytest.fixture(autouse=True)
def _allow_local_webhooks(settings: Settings, tmp_path: Path) -> None:
    settings.ECHOSCOPE_ALERT_PRIVATE_HOSTS = ["127.0.0.1"]
    settings.ECHOSCOPE_MAIL = True
    settings.ECHOSCOPE_URL = "https://echoscope.example.org"
    settings.ECHOSCOPE_DATA_DIR = tmp_path


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with listening(Receiver()) as started:
        yield started


def confirm(team: Team, address: str) -> None:
    """The owner of the address permits the team's alerts."""
    AlertAddress.objects.update_or_create(team=team, email=address.lower(), defaults={"confirmed_at": timezone.now()})


@pytest.fixture
def make_rule(people: People) -> Make:
    """A rule of the owner, in force since an hour ago."""

    def make(**settings: Any) -> Rule:
        given = {
            "name": "Tell us",
            "events": [Rule.Event.FAILED],
            "channel": Rule.Channel.EMAIL,
            "addresses": ["team@example.org"],
            "since": timezone.now() - timedelta(hours=1),
        } | settings
        for address in given["addresses"]:
            confirm(given.get("team", people.team), address)
        return do_create_rule(given.pop("team", people.team), given.pop("author", people.owner), **given)

    return make


def raise_alarm(run: Run, number: int = 1, state: str = "watch", message: str = "It is.", hours_ago: float = 0) -> None:
    """An alarm of the Echo Trap, as the ingest stores it."""
    time = timezone.now() - timedelta(hours=hours_ago)
    alarm = Alarm.objects.create(run=run, seq=number, iteration=number, state=state, message=message, time=time)
    record_alarms([alarm])
