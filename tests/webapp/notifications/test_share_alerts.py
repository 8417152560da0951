"""Alerts of watched views: recorded with the share that crosses the threshold, once for a run and view."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.webapp import journal_builder
from tests.webapp.conftest import People
from tests.webapp.notifications.conftest import Make
from webapp.explorer.watched_shares import do_compute_shares
from webapp.explorer.watching import do_watch
from webapp.ingest.rebuild import do_rebuild
from webapp.ingest.tailer import JournalTailer
from webapp.notifications.dispatch import dispatch
from webapp.notifications.inbox import entries
from webapp.notifications.messages import alert_letter, slack_body
from webapp.notifications.models import Delivery, Notification, Rule, RunEvent
from webapp.runs.models import Run
from webapp.saved_views.actions import do_save_view
from webapp.saved_views.models import SavedView

pytestmark = pytest.mark.django_db


@pytest.fixture
def view(people: People) -> SavedView:
    """A watched view that matches half of the attempts of each iteration, with an alert above 40%."""
    view = do_save_view(people.owner, SavedView.List.TRAJECTORIES, "Lost ones", "outcome=failed", people.team)
    return do_watch(view, 0.4)


def play(run: Run, *numbers: int) -> None:
    start = [journal_builder.started()] if numbers[0] == 1 else []
    iterations = (event for number in numbers for event in journal_builder.iteration(number))
    journal_builder.write(run.folder, *start, *iterations)
    run.refresh_from_db()
    JournalTailer(run).drain()
    run.refresh_from_db()


def test_a_share_above_the_threshold_is_reported_once_for_a_run_and_view(
    run: Run, view: SavedView, make_rule: Make, people: People
) -> None:
    make_rule(events=[Rule.Event.SHARE])
    play(run, 1, 2)
    do_compute_shares()
    dispatch()
    play(run, 3)
    do_rebuild(run)
    do_compute_shares()
    dispatch()
    delivery = Delivery.objects.get()
    payload = delivery.facts
    assert (payload["event"], payload["title"]) == ("share", "Watched view rose above its threshold")
    sentence = "Watched view at iteration 2. “Lost ones” matches 50.0% of its training attempts, more than 40.0%."
    assert payload["message"] == sentence
    assert payload["details"] == {
        "view": "Lost ones",
        "query": "outcome=failed",
        "metric": "watched/lost-ones",
        "iteration": 2,
        "share": 0.5,
        "threshold": 0.4,
    }
    assert sentence in alert_letter(delivery, ["a@example.org"]).text
    assert "Lost ones" in slack_body(delivery).decode()
    entry = entries(people.owner, limit=5)[0]
    assert (entry.kind, entry.title) == ("share", "Watched view rose above its threshold")
    path = f"/runs/{run.slug}/trajectories?outcome=failed&iteration=2"
    assert Notification.objects.get().path == path


def test_a_share_up_to_the_threshold_and_a_view_without_one_are_silent(run: Run, view: SavedView) -> None:
    do_watch(view, 0.5)
    play(run, 1)
    do_compute_shares()
    do_watch(view, None)
    play(run, 2)
    do_compute_shares()
    assert not RunEvent.objects.exists()


@pytest.mark.parametrize("imported", [False, True])
def test_runs_that_ended_before_are_computed_without_an_alert(run: Run, view: SavedView, imported: bool) -> None:
    play(run, 1)
    ended = timezone.now() if imported else timezone.now() - timedelta(hours=1)
    Run.objects.update(ended_at=ended, state=Run.State.FINISHED, imported=imported)
    assert do_compute_shares() == 1
    assert not RunEvent.objects.exists()


def test_a_run_that_ends_while_the_clock_stands_still_is_reported(run: Run, view: SavedView) -> None:
    play(run, 1)
    Run.objects.update(ended_at=timezone.now(), state=Run.State.FINISHED)
    do_compute_shares()
    assert RunEvent.objects.get().kind == Rule.Event.SHARE
