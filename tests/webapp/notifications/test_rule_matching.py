"""Events that alert rules report, through the real ingest of journals: event types, scopes, exactly once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.webapp import journal_builder, recorded_journal
from tests.webapp.conftest import People
from tests.webapp.notifications.conftest import Make, raise_alarm
from tests.webapp.teams.members import add_member
from trainer.config.run import RunConfig
from trainer.journal import events as journal
from webapp.ingest.imports import do_finish_import
from webapp.ingest.tailer import JournalTailer
from webapp.notifications.dispatch import dispatch
from webapp.notifications.models import Delivery, Rule, RunEvent
from webapp.notifications.rule_actions import do_delete_rule, do_switch_rule
from webapp.runs.actions import do_release_run, do_request
from webapp.runs.models import Evaluation, Run
from webapp.teams.actions import do_remove_member
from webapp.teams.models import Membership
from webapp.teams.removals import do_undo
from webapp.worker.claims import do_claim_run

pytestmark = pytest.mark.django_db
Event = Rule.Event


def take_in(run: Run, *events: journal.Event) -> None:
    journal_builder.write(run.folder, *events)
    run.refresh_from_db()
    JournalTailer(run).drain()
    run.refresh_from_db()


def reported() -> list[str]:
    """Reported events in order; dispatching all of them once more must add nothing."""
    dispatch()
    count = Delivery.objects.count()
    RunEvent.objects.update(dispatched_at=None)
    dispatch()
    assert Delivery.objects.count() == count
    return list(Delivery.objects.order_by("pk").values_list("event", flat=True))


def alarm(iteration: int, state: Any) -> journal.Alarm:
    return journal.Alarm(iteration=iteration, state=state, message=f"It is {state}.", evidence={"spread": 0.1})


def test_an_echo_trap_alert_includes_its_evidence(run: Run, make_rule: Make) -> None:
    make_rule(events=[Event.WATCH, Event.TRAPPED])
    take_in(run, journal_builder.started(), alarm(2, "watch"), alarm(3, "healthy"), alarm(4, "trapped"))
    assert reported() == ["watch", "trapped"]
    payload = Delivery.objects.get(event="trapped").facts
    assert payload["title"] == "Echo Trap: trapped"
    assert payload["message"] == "Echo Trap: trapped at iteration 4. It is trapped."
    assert payload["details"] == {"iteration": 4, "evidence": {"spread": 0.1}}
    assert payload["run"]["url"] == f"https://echoscope.example.org/runs/{run.slug}/"
    assert payload["id"] == Delivery.objects.get(event="trapped").slug


def test_only_selected_events_are_sent(run: Run, make_rule: Make) -> None:
    make_rule(events=[Event.TRAPPED])
    take_in(run, journal_builder.started(), alarm(2, "watch"))
    assert reported() == []


def test_an_alarm_raised_again_after_a_resume_is_a_new_alarm(run: Run, make_rule: Make) -> None:
    make_rule(events=[Event.WATCH])
    take_in(
        run, journal_builder.started(), *journal_builder.iteration(1), *journal_builder.iteration(2), alarm(2, "watch")
    )
    assert reported() == ["watch"]
    take_in(run, journal_builder.started(attempt=2, from_iteration=1), *journal_builder.iteration(2), alarm(2, "watch"))
    assert reported() == ["watch", "watch"]


@pytest.mark.parametrize("state, event", [(Run.State.FAILED, Event.FAILED), (Run.State.FINISHED, Event.FINISHED)])
def test_each_end_of_a_run_is_sent(run: Run, make_rule: Make, state: Run.State, event: str) -> None:
    make_rule(events=[event])
    claimed = do_claim_run(run.pk, None, timezone.now())
    assert claimed is not None
    assert reported() == []
    do_release_run(claimed, state, failure="Out of memory." if state == Run.State.FAILED else "")
    assert reported() == [event]
    if state == Run.State.FAILED:
        assert "Out of memory." in Delivery.objects.get().facts["message"]
        do_request(Run.objects.get(pk=run.pk), "resume")
        again = do_claim_run(run.pk, None, timezone.now())
        assert again is not None
        do_release_run(again, state)
        assert reported() == [event, event]


def test_a_stopped_run_neither_failed_nor_finished(run: Run, make_rule: Make) -> None:
    make_rule(events=[Event.FAILED, Event.FINISHED])
    do_request(run, "stop")
    assert reported() == []


def test_an_evaluation_is_sent_only_when_it_crosses_the_threshold(run: Run, make_rule: Make) -> None:
    make_rule(events=[Event.REACHED, Event.FELL], threshold=0.5)
    config = RunConfig(iterations=4)
    take_in(
        run,
        recorded_journal.started(config),
        *(recorded_journal.evaluated(n, success) for n, success in enumerate([0.4, 0.6, 0.7, 0.3, 0.2, 0.5])),
    )
    assert reported() == ["reached", "fell", "reached"]
    payload = Delivery.objects.filter(event="fell").get().facts
    assert payload["details"]["iteration"] == 3
    assert payload["details"]["threshold"] == 0.5
    assert payload["message"].startswith("Sokoban fell to 30.0% after iteration 3")


def test_an_evaluation_of_another_suite_is_not_sent(run: Run, make_rule: Make) -> None:
    make_rule(events=[Event.REACHED], threshold=0.5, suite="Boxoban", name="other")
    make_rule(events=[Event.REACHED], threshold=0.5, suite="Sokoban", name="same")
    take_in(run, recorded_journal.started(RunConfig()), recorded_journal.evaluated(1, 0.9))
    assert reported() == ["reached"]
    assert Delivery.objects.get().rule == Rule.objects.get(name="same")


def test_a_long_wait_is_sent_once_per_wait(run: Run, make_rule: Make) -> None:
    make_rule(events=[Event.QUEUED], queued_minutes=10)
    assert reported() == []
    Run.objects.update(progressed_at=timezone.now() - timedelta(minutes=11))
    assert reported() == ["queued"]
    assert "In the queue for 11 min" in Delivery.objects.get().facts["message"]
    claimed = do_claim_run(run.pk, None, timezone.now())
    assert claimed is not None
    assert reported() == ["queued"]
    Run.objects.update(attempt=1)
    do_release_run(claimed, Run.State.QUEUED)
    assert reported() == ["queued"], "it waits since now"
    Run.objects.update(progressed_at=timezone.now() - timedelta(minutes=12))
    assert reported() == ["queued", "queued"]


def test_a_stalled_run_is_reported_once_until_it_progresses(run: Run, make_rule: Make) -> None:
    make_rule(events=[Event.STALLED], stalled_minutes=10)
    assert do_claim_run(run.pk, None, timezone.now())
    take_in(run, journal_builder.started(), *journal_builder.iteration(1))
    assert reported() == []
    Run.objects.update(progressed_at=timezone.now() - timedelta(minutes=11))
    assert reported() == ["stalled"]
    assert "No event for 11 min" in Delivery.objects.get().facts["message"]
    take_in(run, *journal_builder.iteration(2))
    assert reported() == ["stalled"]
    Run.objects.update(progressed_at=timezone.now() - timedelta(minutes=11))
    assert reported() == ["stalled", "stalled"]


def test_events_before_the_rule_or_while_disabled_are_not_sent(run: Run, make_rule: Make) -> None:
    rule = make_rule(events=[Event.WATCH], since=timezone.now())
    raise_alarm(run, 1, hours_ago=0.1)
    assert reported() == []
    do_switch_rule(rule, False)
    raise_alarm(run, 2)
    assert reported() == []
    do_switch_rule(rule, True)
    assert reported() == []
    raise_alarm(run, 3)
    assert reported() == ["watch"]


def test_late_events_are_sent_up_to_a_week(run: Run, make_rule: Make) -> None:
    """As after hours without a database, and by an old journal that is read again."""
    make_rule(events=[Event.WATCH], since=timezone.now() - timedelta(days=30))
    raise_alarm(run, 1, hours_ago=5)
    raise_alarm(run, 2, hours_ago=8 * 24)
    assert reported() == ["watch"]


def test_an_event_while_its_rule_was_deleted_is_sent_after_the_undo(run: Run, people: People, make_rule: Make) -> None:
    removal = do_delete_rule(make_rule(events=[Event.WATCH]), people.owner)
    assert removal is not None
    raise_alarm(run)
    assert reported() == []
    do_undo(removal, people.owner)
    assert reported() == ["watch"]


@pytest.mark.parametrize(
    "scope, value, matches",
    [
        (Rule.Scope.ALL, "", True),
        (Rule.Scope.ENVIRONMENT, "Sokoban", True),
        (Rule.Scope.ENVIRONMENT, "Bandit", False),
        (Rule.Scope.TAG, "Paper", True),
        (Rule.Scope.TAG, "other", False),
        (Rule.Scope.OWN, "", True),
    ],
)
def test_a_rule_can_be_limited_to_some_runs(run: Run, make_rule: Make, scope: str, value: str, matches: bool) -> None:
    Run.objects.update(tags=["paper"])
    make_rule(events=[Event.WATCH], scope=scope, scope_value=value)
    take_in(run, journal_builder.started(), alarm(1, "watch"))
    assert reported() == (["watch"] if matches else [])


def test_own_runs_are_those_of_the_rule_author_while_a_member(run: Run, people: People, make_rule: Make) -> None:
    make_rule(events=[Event.WATCH], scope=Rule.Scope.OWN, author=people.viewer)
    make_rule(events=[Event.TRAPPED], scope=Rule.Scope.OWN)
    take_in(run, journal_builder.started(), alarm(1, "watch"))
    assert reported() == []
    Membership.objects.filter(user=people.owner).delete()
    take_in(run, alarm(2, "trapped"))
    assert reported() == []


def test_what_an_author_missed_while_out_of_the_team_is_sent_after_the_undo(
    run: Run, people: People, make_rule: Make
) -> None:
    author = add_member(people)
    make_rule(events=[Event.WATCH], author=author)
    removal = do_remove_member(people.team, author, people.owner)
    assert removal is not None
    raise_alarm(run)
    assert reported() == []
    do_undo(removal, people.owner)
    assert reported() == ["watch"]


def test_a_private_run_alerts_its_author_only(run: Run, people: People, make_rule: Make) -> None:
    Run.objects.update(visibility=Run.Visibility.PRIVATE)
    make_rule(events=[Event.WATCH], author=people.viewer, name="theirs")
    make_rule(events=[Event.WATCH], name="mine")
    take_in(run, journal_builder.started(), alarm(1, "watch"))
    assert reported() == ["watch"]
    assert Delivery.objects.get().rule.name == "mine"


def test_other_teams_get_no_alerts(run: Run, people: People, make_rule: Make) -> None:
    from webapp.teams.models import Team

    make_rule(events=list(Event.values), team=Team.objects.get(name="Elsewhere"), author=people.outsider)
    Run.objects.update(created_at=timezone.now() - timedelta(days=1))
    take_in(run, journal_builder.started(), alarm(1, "trapped"), recorded_journal.evaluated(1, 0.9))
    assert reported() == []


def test_an_imported_journal_sends_no_alerts(run: Run, make_rule: Make) -> None:
    make_rule(events=[Event.FINISHED])
    Run.objects.update(imported=True, end_reason="completed")
    do_finish_import(run, growing=False)
    assert reported() == []
    Run.objects.update(state=Run.State.RUNNING, created_at=timezone.now() - timedelta(hours=2))
    do_finish_import(run, growing=True)
    assert reported() == ["finished"], "it was imported while it was growing, and somebody waited for it"


def test_the_query_count_is_constant(run: Run, make_rule: Make, django_assert_max_num_queries: Any) -> None:
    for number in range(5):
        make_rule(events=list(Event.values), name=f"rule {number}", threshold=0.1 * number)
    take_in(run, journal_builder.started(), *(alarm(n, "watch") for n in range(1, 30)))
    take_in(run, *(recorded_journal.evaluated(n, 0.03 * n) for n in range(30)))
    assert Evaluation.objects.count() == 30
    with django_assert_max_num_queries(32):
        dispatch()
    assert Delivery.objects.count() > 5 * 29
