"""Processes that are killed between an event and its receivers: nothing is lost, and nothing is reported twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from tests.webapp.notifications.conftest import Make, raise_alarm
from tests.webapp.notifications.receiver import Receiver
from webapp.notifications.dispatch import dispatch
from webapp.notifications.models import Delivery, Notification, Rule, RunEvent
from webapp.notifications.outbox import deliver_due
from webapp.runs.models import Run
from webapp.settings import ROOT

pytestmark = pytest.mark.django_db(transaction=True)

STOPPED_AT = """
import sys, time, django
django.setup()
from webapp.notifications import dispatch, outbox

def stop(*arguments):
    print("here", flush=True)
    time.sleep(600)

module, name = sys.argv[1].split(".")
setattr({"dispatch": dispatch, "outbox": outbox}[module], name, stop)
dispatch.dispatch()
outbox.deliver_due()
"""
"""The work of the clock, up to the call of a function."""


def kill_at(function: str) -> None:
    """Let another process dispatch and deliver, and kill it when it calls the function."""
    url = settings.DATABASE_URL.rsplit("/", 1)[0] + "/" + str(connection.settings_dict["NAME"])
    environment = os.environ | {
        "DATABASE_URL": url,
        "DJANGO_SETTINGS_MODULE": "webapp.settings",
        "ECHOSCOPE_ALERT_PRIVATE_HOSTS": "127.0.0.1",
    }
    command = [sys.executable, "-c", STOPPED_AT, function]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("function", "requests"),
    [
        ("dispatch.do_notify", 1),  # the deliveries are written, not committed
        ("outbox.send", 1),  # the delivery is claimed
        ("outbox.do_finish_attempt", 2),  # the receiver has accepted it, which is not recorded
    ],
)
def test_an_event_survives_the_process_that_reports_it(
    run: Run, make_rule: Make, receiver: Receiver, function: str, requests: int
) -> None:
    make_rule(events=[Rule.Event.WATCH], channel=Rule.Channel.WEBHOOK, url=receiver.url, addresses=[])
    raise_alarm(run)
    kill_at(function)
    dispatch()
    assert deliver_due() == (1 if function == "dispatch.do_notify" else 0), "it waits for the end of a claim"
    Delivery.objects.filter(state=Delivery.State.PENDING).update(next_try_at=timezone.now())
    deliver_due()
    assert Delivery.objects.get().state == Delivery.State.DELIVERED
    assert Notification.objects.get().kind == "watch"
    assert RunEvent.objects.get().dispatched_at is not None
    assert len(receiver.requests) == requests
    assert {headers["webhook-id"] for headers, _ in receiver.requests} == {Delivery.objects.get().slug}
