"""Delivery of alerts: a real receiver, signatures, retries, concurrent senders, rules disabled after failures."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from tests.webapp.notifications.conftest import Make, raise_alarm
from tests.webapp.notifications.receiver import Receiver
from webapp.core import scheduler
from webapp.core.scheduler import Job, Scheduler
from webapp.notifications import webhooks
from webapp.notifications.dispatch import dispatch
from webapp.notifications.models import Delivery, DeliveryAttempt, Rule
from webapp.notifications.outbox import LEASE, MAX_ATTEMPTS, MAX_FAILED_DELIVERIES, deliver_due, do_claim
from webapp.notifications.rule_actions import (
    RuleRefused,
    do_end_former_secrets,
    do_redeliver,
    do_rotate_secret,
    do_switch_rule,
    do_test_rule,
)
from webapp.notifications.signatures import new_secret
from webapp.runs.models import Run
from webapp.settings import ROOT

pytestmark = pytest.mark.django_db(transaction=True)
Event, State, Channel = Rule.Event, Delivery.State, Rule.Channel
HOOK = "https://hooks.example.org/"


def notice(run: Run, number: int = 1) -> Delivery:
    raise_alarm(run, number, message="The spread falls & <rises>.")
    dispatch()
    return Delivery.objects.order_by("pk").last() or pytest.fail("nothing was noticed")


def documented() -> dict[str, Any]:
    """Names defined by the guide's Python examples."""
    guide = (ROOT / "docs" / "alerts.md").read_text()
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", guide, re.S):
        exec(block, names)
    return names


def make_due() -> None:
    """Make all deliveries due."""
    Delivery.objects.filter(state=State.PENDING).update(next_try_at=timezone.now())


def test_a_receiver_that_fails_twice_gets_the_alert_exactly_once(run: Run, make_rule: Make, receiver: Receiver) -> None:
    receiver.statuses = [500, 503, 200]
    rule = make_rule(events=[Event.WATCH], channel=Channel.WEBHOOK, url=receiver.url)
    delivery = notice(run)
    for expected in (State.PENDING, State.PENDING, State.DELIVERED, State.DELIVERED):
        deliver_due()
        delivery.refresh_from_db()
        assert delivery.state == expected
        make_due()
    assert [entry.status for entry in delivery.log.order_by("pk")] == [500, 503, 200]
    assert len(receiver.requests) == 3
    bodies = {body for _, body in receiver.requests}
    assert len(bodies) == 1, "every try carries the same bytes, under the same id"
    assert json.loads(bodies.pop())["id"] == delivery.slug
    verify = documented()["verify"]
    for headers, body in receiver.requests:
        assert headers["webhook-id"] == delivery.slug
        assert verify(rule.secret, headers, body)
        assert not verify(rule.secret, headers, body + b" ")
        assert not verify(rule.secret, headers | {"webhook-id": "another"}, body)
        assert not verify(new_secret(), headers, body)
        assert not verify(rule.secret, headers, body, -1)
        assert not verify(rule.secret, {}, body)
        assert headers["Echoscope-Delivery"] == delivery.slug
        assert headers["Echoscope-Event"] == "watch"


def test_a_replaced_secret_signs_for_another_day(run: Run, make_rule: Make, receiver: Receiver) -> None:
    rule = make_rule(events=[Event.WATCH], channel=Channel.WEBHOOK, url=receiver.url)
    old, verify = rule.secret, documented()["verify"]
    rule = do_rotate_secret(rule)
    notice(run)
    deliver_due()
    headers, body = receiver.requests[-1]
    assert verify(old, headers, body)
    assert verify(rule.secret, headers, body)
    rule.former_secrets[0]["until"] = (timezone.now() - timedelta(seconds=1)).isoformat()
    rule.save()
    notice(run, 2)
    deliver_due()
    headers, body = receiver.requests[-1]
    assert not verify(old, headers, body)
    assert verify(rule.secret, headers, body)


def test_an_old_secret_can_be_invalidated_at_once(make_rule: Make) -> None:
    rule = make_rule(channel=Channel.WEBHOOK, url=HOOK, addresses=[])
    old = rule.secret
    rule = do_rotate_secret(rule)
    assert rule.signing_secrets(timezone.now()) == [rule.secret, old]
    assert rule.signing_secrets(timezone.now() + timedelta(hours=23, minutes=59)) == [rule.secret, old]
    assert rule.signing_secrets(timezone.now() + timedelta(hours=24)) == [rule.secret]
    do_end_former_secrets(rule)
    rule.refresh_from_db()
    assert rule.signing_secrets(timezone.now()) == [rule.secret]
    assert rule.former_secrets_until is None


def test_a_secret_is_replaced_at_most_four_times_a_day(make_rule: Make) -> None:
    rule = make_rule(channel=Channel.WEBHOOK, url=HOOK, addresses=[])
    for _ in range(4):
        rule = do_rotate_secret(rule)
    with pytest.raises(RuleRefused, match="Invalidate the old ones first"):
        do_rotate_secret(rule)
    rule = do_rotate_secret(do_end_former_secrets(rule))
    assert len(rule.signing_secrets(timezone.now())) == 2


def test_retries_are_spread_over_an_hour_and_then_end(run: Run, make_rule: Make, receiver: Receiver) -> None:
    receiver.statuses = [500]
    make_rule(events=[Event.WATCH], channel=Channel.WEBHOOK, url=receiver.url)
    delivery = notice(run)
    waits = []
    for _ in range(8):
        before = timezone.now()
        deliver_due()
        delivery.refresh_from_db()
        if delivery.state == State.PENDING:
            waits.append(delivery.next_try_at - before)
            assert deliver_due() == 0, "not before its time"
        make_due()
    assert delivery.state == State.FAILED
    assert len(receiver.requests) == delivery.log.count() == 6
    assert timedelta(minutes=60) <= sum(waits, timedelta()) < timedelta(minutes=62)
    assert waits == sorted(waits)


def test_concurrent_dispatchers_and_senders_deliver_each_alert_once(
    run: Run, make_rule: Make, receiver: Receiver
) -> None:
    for number in range(3):
        make_rule(events=[Event.WATCH], channel=Channel.WEBHOOK, url=receiver.url, name=f"rule {number}")
    for number in range(1, 9):
        raise_alarm(run, number)
    gate = threading.Barrier(6)
    faults: list[BaseException] = []

    def together(work: object) -> None:
        try:
            gate.wait(30)
            for _ in range(4):
                work()  # type: ignore[operator]
        except BaseException as error:
            faults.append(error)
            raise
        finally:
            connection.close()

    threads = [threading.Thread(target=together, args=(dispatch,)) for _ in range(2)]
    threads += [threading.Thread(target=together, args=(deliver_due,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    while deliver_due():
        pass
    assert not faults
    assert Delivery.objects.filter(state=State.DELIVERED).count() == 24
    assert DeliveryAttempt.objects.count() == 24
    ids = [json.loads(body)["id"] for _, body in receiver.requests]
    assert len(ids) == len(set(ids)) == 24


def test_a_delivery_of_a_dead_sender_is_taken_over(run: Run, make_rule: Make, receiver: Receiver) -> None:
    rule = make_rule(events=[Event.WATCH], channel=Channel.WEBHOOK, url=receiver.url)
    delivery = notice(run)
    now = timezone.now()
    assert do_claim(rule.pk, now) == delivery
    assert do_claim(rule.pk, now) is None
    assert deliver_due() == 0
    after = do_claim(rule.pk, now + LEASE)
    assert after is not None
    assert after.tries == 2


def test_a_delivery_whose_senders_die_each_time_is_given_up(run: Run, make_rule: Make, receiver: Receiver) -> None:
    rule = make_rule(events=[Event.WATCH], channel=Channel.WEBHOOK, url=receiver.url)
    delivery = notice(run)
    for _ in range(MAX_ATTEMPTS):
        assert do_claim(rule.pk, timezone.now()) == delivery
        make_due()
    deliver_due()
    delivery.refresh_from_db()
    assert delivery.state == State.FAILED
    assert "ended each time" in delivery.log.get().answer
    assert receiver.requests == []


def test_a_fault_in_one_delivery_is_retried_and_stops_no_other(
    run: Run, make_rule: Make, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    make_rule(events=[Event.WATCH], channel=Channel.WEBHOOK, url=receiver.url, name="broken")
    make_rule(events=[Event.WATCH], channel=Channel.WEBHOOK, url=receiver.url, name="sound")
    Rule.objects.filter(name="broken").update(secret="not base64")
    notice(run)
    assert deliver_due() == 2
    broken = Delivery.objects.get(rule__name="broken")
    assert (broken.state, broken.tries) == (State.PENDING, 1)
    assert broken.log.get().answer.startswith("Error: ")
    assert Delivery.objects.get(rule__name="sound").state == State.DELIVERED
    assert broken.slug in caplog.text


def test_a_slack_message_has_a_link_and_no_channel_mention(run: Run, make_rule: Make, receiver: Receiver) -> None:
    Run.objects.update(title="A <!channel> & b")
    make_rule(events=[Event.WATCH], channel=Channel.SLACK, url=receiver.url)
    notice(run)
    deliver_due()
    ((headers, body),) = receiver.requests
    assert json.loads(body) == {
        "text": f"*Echo Trap: watch* <https://echoscope.example.org/runs/{run.slug}/|A &lt;!channel&gt; &amp; b>\n"
        "Echo Trap: watch at iteration 1. The spread falls &amp; &lt;rises&gt;."
    }
    assert "webhook-signature" not in headers


def test_a_mail_names_event_run_and_rule(run: Run, make_rule: Make) -> None:
    Run.objects.update(title="Two\nlines")
    rule = make_rule(events=[Event.WATCH], addresses=["a@example.org", "b@example.org"])
    notice(run)
    deliver_due()
    (sent,) = mail.outbox
    assert sent.to == ["a@example.org", "b@example.org"]
    assert sent.subject == "Echoscope: Two lines: Echo Trap: watch"
    assert "The spread falls & <rises>." in sent.body
    assert f"https://echoscope.example.org/runs/{run.slug}/" in sent.body
    assert f"https://echoscope.example.org/alerts/{rule.slug}" in sent.body
    assert Delivery.objects.get().state == State.DELIVERED


def test_without_a_mail_server_no_mail_counts_as_delivered(run: Run, make_rule: Make, settings: Settings) -> None:
    settings.ECHOSCOPE_MAIL = False
    make_rule(events=[Event.WATCH])
    delivery = notice(run)
    deliver_due()
    assert mail.outbox == []
    assert "E-mail is not configured" in delivery.log.get().answer
    delivery.refresh_from_db()
    assert delivery.state == State.PENDING


def test_the_reply_of_the_mail_server_is_in_the_log(run: Run, make_rule: Make, settings: Settings) -> None:
    settings.EMAIL_BACKEND = "tests.webapp.notifications.refusing_mail_server.Refusing"
    make_rule(events=[Event.WATCH])
    delivery = notice(run)
    deliver_due()
    assert delivery.log.get().answer == "The mail server refused it: mailbox full"


def test_a_rule_is_disabled_after_repeated_failures(run: Run, make_rule: Make, receiver: Receiver) -> None:
    receiver.statuses, receiver.body = [410], b"this hook is gone"
    rule = make_rule(events=[Event.WATCH], channel=Channel.WEBHOOK, url=receiver.url)
    for number in range(1, MAX_FAILED_DELIVERIES + 2):
        notice(run, number)
    while Rule.objects.get().enabled:
        make_due()
        assert deliver_due()
    rule.refresh_from_db()
    assert "this hook is gone" in rule.disabled_reason
    assert not Delivery.objects.filter(state=State.PENDING).exists()
    raise_alarm(run, 99)
    dispatch()
    assert Delivery.objects.count() == MAX_FAILED_DELIVERIES + 1
    with pytest.raises(RuleRefused, match="switched off"):
        do_redeliver(Delivery.objects.earliest("pk"))
    do_switch_rule(rule, True)
    receiver.statuses = [200]
    again = do_redeliver(Delivery.objects.earliest("pk"))
    deliver_due()
    again.refresh_from_db()
    assert again.state == State.DELIVERED
    rule.refresh_from_db()
    assert (rule.failures, rule.disabled_reason) == (0, "")


def test_a_success_resets_the_failure_count(run: Run, make_rule: Make, receiver: Receiver) -> None:
    make_rule(events=[Event.WATCH], channel=Channel.WEBHOOK, url=receiver.url)
    Rule.objects.update(failures=MAX_FAILED_DELIVERIES - 1)
    notice(run)
    deliver_due()
    assert Rule.objects.get().failures == 0


def test_a_test_is_sent_once_even_by_a_disabled_rule(make_rule: Make, receiver: Receiver) -> None:
    receiver.statuses = [500]
    rule = make_rule(channel=Channel.WEBHOOK, url=receiver.url)
    do_switch_rule(rule, False)
    tested = do_test_rule(rule)
    deliver_due()
    tested.refresh_from_db()
    assert tested.state == State.FAILED
    assert json.loads(receiver.requests[0][1])["event"] == "test"
    rule.refresh_from_db()
    assert rule.failures == 0


def test_a_slow_receiver_does_not_delay_others(
    run: Run, make_rule: Make, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "TIMEOUT", 0.5)
    receiver.body, receiver.drip = b"x" * 400, 0.05
    make_rule(events=[Event.WATCH], channel=Channel.WEBHOOK, url=receiver.url, name="slow")
    make_rule(events=[Event.WATCH], name="quick")
    raise_alarm(run)
    dispatch()
    deliver_due()
    assert Delivery.objects.get(rule__name="quick").state == State.DELIVERED
    slow = Delivery.objects.get(rule__name="slow")
    assert slow.log.get().answer == "No response within 0 s."
    assert slow.state == State.PENDING


@pytest.fixture
def running() -> Iterator[Scheduler]:
    jobs = [job for job in scheduler._jobs if job.name in {"events", "deliveries"}]
    background = Scheduler([replace(job, pause=0.02) for job in jobs], look_interval=0.02)
    background.start()
    yield background
    background.stop()


def test_the_scheduler_threads_dispatch_and_deliver(
    run: Run, make_rule: Make, receiver: Receiver, running: Scheduler
) -> None:
    make_rule(events=[Event.WATCH], channel=Channel.WEBHOOK, url=receiver.url)
    raise_alarm(run)
    waited = threading.Event()
    for _ in range(1500):
        if Delivery.objects.filter(state=State.DELIVERED).exists():
            break
        waited.wait(0.02)
    assert Delivery.objects.get().state == State.DELIVERED


def test_a_failed_job_is_retried(caplog: pytest.LogCaptureFixture) -> None:
    rounds: list[int] = []
    enough = threading.Event()

    def work() -> None:
        rounds.append(1)
        if len(rounds) == 3:
            enough.set()
        raise ZeroDivisionError("no good")

    background = Scheduler([Job("broken", 0.01, work)])
    background.start()
    assert enough.wait(30)
    background.stop()
    assert "broken failed; it continues" in caplog.text
