"""Jobs of the clock: when each has a round, and that no failure ends them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone

from tests.patience import SECONDS, wait_until
from tests.webapp.conftest import People
from webapp.core import scheduler
from webapp.core.scheduler import Job, Lookout, Scheduler
from webapp.notifications.models import Delivery, Rule, RunEvent
from webapp.runs.models import Run
from webapp.studies.models import Study
from webapp.teams.models import User
from webapp.trajectories.models import Group, Trajectory

END_LOOKS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT EXISTS%' AND pid <> pg_backend_pid()
"""


def test_a_failed_job_is_retried(caplog: pytest.LogCaptureFixture) -> None:
    rounds: list[int] = []

    def work() -> None:
        rounds.append(1)
        raise ZeroDivisionError("no good")

    background = Scheduler([Job("broken", 0.01, work)])
    background.start()
    wait_until(lambda: len(rounds) >= 3)
    background.stop()
    assert "broken failed; it continues" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_a_job_has_rounds_only_while_rows_wait_for_it() -> None:
    rounds: list[int] = []

    def work() -> None:
        rounds.append(User.objects.filter(username__startswith="new").delete()[0])

    waiting = Job("users", 0.01, work, lambda: [User.objects.filter(username__startswith="new", date_joined__lt=Now())])
    other = threading.Event()
    background = Scheduler([waiting, Job("other", 0.01, other.set)], look_interval=0.01)
    background.start()
    try:
        assert other.wait(SECONDS)
        User.objects.create(username="old")
        time.sleep(0.2)
        assert not rounds
        User.objects.create(username="new")
        wait_until(lambda: 1 in rounds)
        User.objects.create(username="newer")
        wait_until(lambda: rounds.count(1) == 2)
        assert len(rounds) <= 4, "each row may be seen once more while its round goes on"
    finally:
        background.stop()


@pytest.mark.django_db(transaction=True)
def test_a_lost_connection_delays_a_job_by_one_look(caplog: pytest.LogCaptureFixture) -> None:
    done = threading.Event()
    background = Scheduler([Job("users", 0.01, done.set, lambda: [User.objects.filter(username="new")])], 0.05)
    background.start()
    try:
        with connection.cursor() as cursor:
            while "The look for due jobs: the database does not answer" not in caplog.text:
                cursor.execute(END_LOOKS)
                time.sleep(0.05)
        User.objects.create(username="new")
        assert done.wait(SECONDS)
    finally:
        background.stop()


def due() -> set[str]:
    return Lookout(scheduler._jobs).due()


def test_an_idle_site_has_no_job_to_do(people: People) -> None:
    assert due() == set()


def ended_run(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(state=Run.State.FAILED, ended_at=timezone.now())


def lost_run(run: Run) -> None:
    gone = timezone.now() - timedelta(seconds=1)
    Run.objects.filter(pk=run.pk).update(state=Run.State.RUNNING, lease="of a dead one", lease_expires_at=gone)


def held_run(run: Run) -> None:
    later = timezone.now() + timedelta(minutes=1)
    Run.objects.filter(pk=run.pk).update(state=Run.State.RUNNING, lease="of one", lease_expires_at=later)


def event(run: Run) -> None:
    held_run(run)
    RunEvent.objects.create(run=run, kind="watch", key="k", at=timezone.now())


def dispatched_event(run: Run) -> None:
    event(run)
    RunEvent.objects.update(dispatched_at=timezone.now())


def rule(run: Run) -> None:
    held_run(run)
    Rule.objects.create(team=run.team, author=run.author, name="all", events=["watch"], channel=Rule.Channel.INBOX)


def delivery(run: Run) -> None:
    rule(run)
    Rule.objects.update(enabled=False)
    Delivery.objects.create(
        rule=Rule.objects.get(), run=run, key="k", event="watch", payload="{}", next_try_at=timezone.now()
    )


def unjudged_attempt(run: Run) -> None:
    held_run(run)
    group = Group.objects.create(run=run, attempt=1, iteration=1, split="train", number=0, seed=1, board={})
    Trajectory.objects.create(run=run, group=group, attempt=1, key="a", member=0, iteration=1, finished_seq=1)


def study(run: Run) -> None:
    held_run(run)
    Study.objects.create(team=run.team, author=run.author, title="A study", spec={})


@pytest.mark.parametrize(
    "change, jobs",
    [
        (lambda run: None, {"reaper"}),
        (lost_run, {"reaper"}),
        (held_run, set()),
        (ended_run, set()),
        (event, {"events"}),
        (dispatched_event, set()),
        (rule, {"events"}),
        (delivery, {"deliveries"}),
        (unjudged_attempt, {"marks"}),
        (study, {"studies"}),
    ],
)
def test_rows_for_which_a_job_has_a_round(run: Run, change: Callable[[Run], None], jobs: set[str]) -> None:
    change(run)
    assert due() == jobs
