"""Dispatch of events to inboxes: who is notified about which event, exactly once, and never without access."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from tests.webapp.annotations.conftest import Member
from tests.webapp.conftest import People
from tests.webapp.notifications.conftest import raise_alarm
from webapp.annotations.actions import do_comment, do_delete_comment
from webapp.notifications.actions import do_follow, do_set_preferences, is_following
from webapp.notifications.dispatch import KEEP, dispatch, do_dispatch, do_forget
from webapp.notifications.inbox import entries, unread_count
from webapp.notifications.models import Delivery, Notification, Rule, RunEvent
from webapp.notifications.outbox import serve
from webapp.notifications.rule_actions import do_create_rule, do_test_rule
from webapp.runs.actions import run_ended
from webapp.runs.models import Run
from webapp.teams.models import Membership, User
from webapp.trajectories.models import Trajectory

pytestmark = pytest.mark.django_db


def end(run: Run, state: Run.State = Run.State.FINISHED) -> None:
    Run.objects.filter(pk=run.pk).update(state=state, ended_at=timezone.now(), failure="It broke.", end_message="Done.")
    run_ended.send(Run, run=Run.objects.get(pk=run.pk))


def alarm(run: Run, state: str, seq: int = 2) -> None:
    raise_alarm(run, seq, state, "Thoughts repeat.")


def notified() -> list[tuple[str, str]]:
    """(user, kind) of all notifications; dispatching all events once more must add nothing."""
    dispatch()
    count = Notification.objects.count()
    RunEvent.objects.update(dispatched_at=None)
    dispatch()
    assert Notification.objects.count() == count
    return sorted(Notification.objects.values_list("user__username", "kind"))


def deliver_all() -> None:
    dispatch()
    for rule_id in Rule.objects.values_list("pk", flat=True):
        serve(rule_id)
    assert not Delivery.objects.exclude(state=Delivery.State.DELIVERED).exists()


def titles(user: User) -> list[str]:
    return [entry.title for entry in entries(user, limit=20)]


@pytest.mark.parametrize("state, kind", [(Run.State.FINISHED, "finished"), (Run.State.FAILED, "failed")])
def test_the_author_is_notified_of_the_end_of_a_run_without_asking(run: Run, state: Run.State, kind: str) -> None:
    end(run, state)
    assert notified() == [("ada", kind)]


def test_followers_are_notified_and_the_echo_trap_is_an_event(run: Run, people: People) -> None:
    do_follow(people.viewer, run, True)
    alarm(run, "watch")
    alarm(run, "healthy", 2)
    alarm(run, "trapped", 3)
    assert notified() == [("ada", "trapped"), ("ada", "watch"), ("grace", "trapped"), ("grace", "watch")]
    assert titles(people.viewer) == ["Echo Trap: trapped", "Echo Trap: watch"]
    assert entries(people.viewer, limit=1)[0].message == "At iteration 3. Thoughts repeat."


def test_events_before_following_and_after_stopping_are_not_notified(run: Run, people: People) -> None:
    alarm(run, "watch")
    do_follow(people.viewer, run, True)
    do_follow(people.owner, run, False)
    assert notified() == []
    assert is_following(people.viewer, run)
    assert not is_following(people.owner, run)


def test_a_preference_silences_own_runs_but_not_followed_ones(run: Run, people: People) -> None:
    do_set_preferences(people.owner, own_runs=False, comments=True, team_alerts=True)
    assert not is_following(people.owner, run)
    end(run)
    assert notified() == []
    do_follow(people.owner, run, True)
    end(run)
    assert notified() == [("ada", "finished")]


def test_who_loses_access_gets_no_more_and_no_longer_sees_what_came(run: Run, people: People) -> None:
    do_follow(people.viewer, run, True)
    do_follow(people.outsider, run, True)
    alarm(run, "watch")
    assert notified() == [("ada", "watch"), ("grace", "watch")]
    assert unread_count(people.viewer) == 1
    Run.objects.filter(pk=run.pk).update(visibility=Run.Visibility.PRIVATE)
    assert (titles(people.viewer), unread_count(people.viewer)) == ([], 0)
    alarm(run, "trapped", 2)
    assert ("grace", "trapped") not in notified()
    Run.objects.filter(pk=run.pk).update(visibility=Run.Visibility.LINK)
    Membership.objects.filter(user=people.viewer).delete()
    alarm(run, "trapped", 3)
    assert [one for one in notified() if one[0] == "grace"] == [("grace", "watch")]
    assert titles(people.viewer) == []


def test_comments_reach_the_author_followers_and_earlier_commenters(
    trajectory: Trajectory, people: People, member: Member
) -> None:
    do_comment(trajectory, member.user, "First.")
    second = do_comment(trajectory, people.viewer, "Second, @ada.")
    assert notified() == [("ada", "comment"), ("ada", "mention"), ("linus", "comment")]
    assert titles(member.user) == ["Comment by grace"]
    assert sorted(titles(people.owner)) == [
        "Comment by linus",
        "grace mentioned you on group 1 · attempt 1, iteration 1",
    ], "a mention is not also a comment"
    assert entries(member.user, limit=1)[0].message == "Second, @ada."
    do_delete_comment(second)
    assert titles(member.user) == []


def test_an_alert_rule_may_use_the_inbox_of_those_who_may_read_the_run(run: Run, people: People) -> None:
    do_create_rule(people.team, people.owner, name="Ends", events=["finished"], channel=Rule.Channel.INBOX)
    end(run)
    deliver_all()
    assert titles(people.viewer) == ["Run finished · Ends"]
    assert titles(people.outsider) == []
    assert len(titles(people.owner)) == 1, "the author's own notification has the same key"


def test_an_alert_of_a_private_run_reaches_its_author_only(run: Run, people: People) -> None:
    Run.objects.filter(pk=run.pk).update(visibility=Run.Visibility.PRIVATE)
    do_create_rule(people.team, people.owner, name="Ends", events=["finished"], channel=Rule.Channel.INBOX)
    end(run)
    deliver_all()
    assert [one.user for one in Notification.objects.all()] == [people.owner]


def test_alerts_of_rules_can_be_switched_off_and_a_test_reaches_its_author(people: People, run: Run) -> None:
    rule = do_create_rule(people.team, people.owner, name="Ends", events=["finished"], channel=Rule.Channel.INBOX)
    do_set_preferences(people.viewer, own_runs=True, comments=True, team_alerts=False)
    do_test_rule(rule)
    end(run)
    deliver_all()
    assert titles(people.viewer) == []
    assert sorted(titles(people.owner)) == ["Run finished", "Test · Ends"]


def test_a_rule_for_one_run_reports_no_other(run: Run, people: People) -> None:
    other = Run.objects.create(team=people.team, author=people.owner, title="Other", config=run.config, iterations=4)
    settings = {"events": ["finished"], "channel": Rule.Channel.INBOX, "scope": Rule.Scope.RUN}
    do_create_rule(people.team, people.owner, name="One", scope_value=run.slug, **settings)
    end(run)
    end(other)
    deliver_all()
    assert [one.run for one in Notification.objects.filter(user=people.viewer)] == [run]


def test_queries_do_not_grow_with_runs_and_users(
    run: Run, people: People, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    dispatch()
    for number in range(6):
        run.pk, run.slug = None, f"copy{number}"
        run.save()
        do_follow(people.viewer, run, True)
        end(run)
    with django_assert_max_num_queries(16):
        assert do_dispatch(timezone.now()) == 6
    with django_assert_max_num_queries(2):
        assert len(entries(people.viewer, limit=20)) == 6
    with django_assert_max_num_queries(1):
        assert unread_count(people.viewer) == 6


def test_many_comments_take_no_more_statements(trajectory: Trajectory, people: People, member: Member) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            do_dispatch(timezone.now())
        return len(captured)

    dispatch()
    do_comment(trajectory, member.user, "First, @grace.")
    before = statements()
    for number in range(5):
        do_comment(trajectory, people.viewer, f"Number {number}, @ada.")
    assert statements() == before


def test_old_events_and_entries_are_forgotten_and_undispatched_events_kept(run: Run) -> None:
    end(run)
    dispatch()
    alarm(run, "watch")
    do_forget(timezone.now() + KEEP)
    assert [event.kind for event in RunEvent.objects.all()] == ["watch"]
    assert not Notification.objects.exists()


@pytest.mark.parametrize(
    ("pauses", "state", "requested"),
    [(True, "trapped", "pause"), (True, "watch", ""), (False, "trapped", "")],
)
def test_a_rule_pauses_a_run_in_trouble(pauses: bool, state: str, requested: str, run: Run, people: People) -> None:
    Run.objects.filter(pk=run.pk).update(state=Run.State.RUNNING)
    do_create_rule(
        people.team, people.owner, name="Trouble", events=["watch", "trapped"], channel="inbox", pauses=pauses
    )
    alarm(run, state)
    dispatch()
    run.refresh_from_db()
    assert run.requested == requested
    Run.objects.filter(pk=run.pk).update(requested="")
    dispatch()
    run.refresh_from_db()
    assert run.requested == "", "an event has its consequences once"


def test_a_run_that_trains_elsewhere_is_reported_and_not_paused(run: Run, people: People) -> None:
    Run.objects.filter(pk=run.pk).update(state=Run.State.RUNNING, imported=True)
    do_create_rule(people.team, people.owner, name="Trouble", events=["trapped"], channel="inbox", pauses=True)
    alarm(run, "trapped")
    dispatch()
    run.refresh_from_db()
    assert run.requested == ""
    assert Delivery.objects.filter(run=run).exists()
