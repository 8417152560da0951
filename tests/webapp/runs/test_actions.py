"""State changes of a run: only valid ones, and only once under concurrency."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from tests.patience import SECONDS
from tests.webapp.conftest import People
from tests.webapp.page_requests import play
from trainer.config.run import RunConfig
from webapp.core.publisher import publisher
from webapp.core.soft_delete import UNDO_TIME
from webapp.runs import actions
from webapp.runs.access import get_run
from webapp.runs.actions import RequestRefused, do_release_run, do_renew_lease, do_request
from webapp.runs.launch.creation import do_create_run
from webapp.runs.models import Run, Worker
from webapp.worker.claims import do_claim_run

pytestmark = pytest.mark.django_db


def held(run: Run, seconds: float = 20) -> Run:
    """The run under a lease of that many seconds."""
    claimed = do_claim_run(run.pk, None, timezone.now())
    assert claimed is not None
    Run.objects.filter(pk=run.pk).update(lease_expires_at=timezone.now() + timedelta(seconds=seconds))
    return claimed


def test_a_new_run_is_queued_with_its_complete_configuration(people: People) -> None:
    config = RunConfig(iterations=7, tags=["trial"])
    run = do_create_run(people.team, people.owner, config, preset="sokoban-pocket")
    assert (run.state, run.iterations, run.environment, run.tags) == ("queued", 7, "Sokoban", ["trial"])
    assert RunConfig.model_validate(run.config) == config
    assert run.folder.name == run.slug


def test_a_run_with_two_messages_is_claimed_once(run: Run) -> None:
    now = timezone.now()
    assert do_claim_run(run.pk, None, now) is not None
    assert do_claim_run(run.pk, None, now) is None


def test_an_expired_lease_can_be_claimed_and_the_former_holder_is_ignored(run: Run) -> None:
    former = held(run, seconds=-1)
    claimed = do_claim_run(run.pk, None, timezone.now())
    assert claimed is not None
    assert do_renew_lease(former, timezone.now()) is None
    assert do_release_run(former, Run.State.FAILED, failure="too late") is False
    run.refresh_from_db()
    assert (run.state, run.lease, run.failure) == ("starting", claimed.lease, "")


def test_a_late_renewal_counts_if_the_run_is_unclaimed(run: Run) -> None:
    claimed = held(run, seconds=-5)
    assert do_renew_lease(claimed, timezone.now()) is not None
    assert actions.do_reap(timezone.now()) == 0


@pytest.mark.parametrize(("wish", "state"), [("pause", "paused"), ("stop", "stopped"), ("cancel", "cancelled")])
def test_a_queued_run_changes_at_once(run: Run, wish: str, state: str) -> None:
    assert do_request(run, wish).state == state


@pytest.mark.parametrize(("wish", "shown"), [("pause", "pausing"), ("stop", "stopping"), ("cancel", "cancelling")])
def test_a_running_run_gets_a_pending_request(run: Run, wish: str, shown: str) -> None:
    held(run)
    changed = do_request(run, wish)
    assert (changed.state, changed.shown_state) == ("starting", shown)


@pytest.mark.parametrize("state", [Run.State.PAUSED, Run.State.STOPPED, Run.State.FAILED])
def test_paused_and_ended_runs_can_be_resumed(run: Run, state: Run.State) -> None:
    Run.objects.filter(pk=run.pk).update(state=state, failure="out of memory", crashes=4, ended_at=timezone.now())
    resumed = do_request(run, "resume")
    assert (resumed.state, resumed.failure, resumed.crashes, resumed.ended_at) == ("queued", "", 0, None)


@pytest.mark.parametrize(
    ("state", "wish"),
    [("finished", "resume"), ("cancelled", "resume"), ("running", "resume"), ("finished", "stop"), ("failed", "pause")],
)
def test_impossible_requests_are_refused_with_a_reason(run: Run, state: str, wish: str) -> None:
    Run.objects.filter(pk=run.pk).update(state=state)
    with pytest.raises(RequestRefused, match=f"This run is {state}: it cannot {wish} now"):
        do_request(run, wish)
    run.refresh_from_db()
    assert (run.state, run.requested) == (state, "")


def test_an_unknown_request_is_refused(run: Run) -> None:
    with pytest.raises(RequestRefused, match="pause, stop, cancel, undo-cancel and resume"):
        do_request(run, "explode")


@pytest.mark.parametrize("state", ["queued", "paused", "stopped"])
def test_a_cancellation_is_undone(run: Run, state: str) -> None:
    Run.objects.filter(pk=run.pk).update(state=state)
    assert do_request(run, "cancel").state == "cancelled"
    undone = do_request(run, "undo-cancel")
    assert (undone.state, undone.cancelled_from) == (state, "")
    assert (undone.ended_at is not None) == (state == "stopped")


def test_a_run_that_was_training_is_queued_again(run: Run) -> None:
    held(run)
    do_request(run, "cancel")
    assert do_request(run, "undo-cancel").requested == "", "withdrawn before the supervisor read it"
    do_request(run, "cancel")
    Run.objects.filter(pk=run.pk).update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    actions.do_reap(timezone.now())
    run.refresh_from_db()
    assert run.state == "cancelled"
    assert do_request(run, "undo-cancel").state == "queued"


@pytest.mark.parametrize("state", [Run.State.QUEUED, Run.State.PAUSED, Run.State.STOPPED])
def test_an_archived_run_whose_cancellation_is_undone_is_listed_if_it_waits(run: Run, state: Run.State) -> None:
    Run.objects.filter(pk=run.pk).update(state=state)
    actions.do_archive_run(do_request(run, "cancel"), True)
    undone = do_request(run, "undo-cancel")
    assert (undone.archived_at is None) == (state != Run.State.STOPPED)


def test_an_archived_run_that_is_resumed_is_listed_again(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(state=Run.State.STOPPED)
    actions.do_archive_run(run, True)
    assert do_request(run, "resume").archived_at is None


def test_a_large_run_is_deleted_whatever_time_a_statement_may_take(
    run: Run, tmp_path: Path, settings: Settings
) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    play(run)
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED)
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN PERFORM pg_sleep(0.25); RETURN NULL; END';"
            "CREATE TRIGGER slow AFTER DELETE ON trajectories_turn EXECUTE FUNCTION slow();"
            "SET LOCAL statement_timeout = 200"
        )
    actions.do_delete_run(run)
    assert not Run.objects.filter(pk=run.pk).exists()


def test_a_cancellation_of_long_ago_stays(run: Run) -> None:
    do_request(run, "cancel")
    Run.objects.filter(pk=run.pk).update(ended_at=timezone.now() - UNDO_TIME)
    with pytest.raises(RequestRefused, match=r"for 10 minutes\. Clone the run"):
        do_request(run, "undo-cancel")


@pytest.mark.parametrize(
    ("wish", "state"), [("", "queued"), ("pause", "paused"), ("stop", "stopped"), ("cancel", "cancelled")]
)
def test_the_reaper_frees_runs_of_silent_workers_and_applies_their_requests(run: Run, wish: str, state: str) -> None:
    held(run, seconds=-1)
    Run.objects.filter(pk=run.pk).update(requested=wish)
    assert actions.do_reap(timezone.now()) >= 1
    run.refresh_from_db()
    assert (run.state, run.lease, run.requested) == (state, "", "")


def test_the_reaper_ignores_live_runs(run: Run) -> None:
    claimed = held(run)
    actions.do_reap(timezone.now())
    run.refresh_from_db()
    assert (run.state, run.lease) == ("starting", claimed.lease)


def test_a_lost_message_is_resent(run: Run) -> None:
    now = timezone.now()
    assert actions.do_reap(now) == 1
    assert actions.do_reap(now) == 0
    assert actions.do_reap(now + 2 * actions.WAKE_INTERVAL) == 1


def test_crashes_count_only_without_progress_in_between(run: Run) -> None:
    assert [actions.do_count_crash(run) for _ in range(3)] == [1, 2, 3]
    Run.objects.filter(pk=run.pk).update(iteration=1)
    assert actions.do_count_crash(run) == 1


def test_without_redis_a_run_can_still_be_launched(
    people: People,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from webapp.celery import app

    monkeypatch.setitem(app.conf, "broker_url", "redis://127.0.0.1:9/0")
    monkeypatch.setitem(app.conf, "broker_write_url", "redis://127.0.0.1:9/0")
    # An earlier test may have left an open connection to the broker that works.
    monkeypatch.setattr(app, "_pool", None)
    monkeypatch.setattr("webapp.core.publisher.LOG_INTERVAL", 0.0)
    monkeypatch.setattr(app.amqp, "_producer_pool", None)
    with django_capture_on_commit_callbacks(execute=True):
        run = do_create_run(people.team, people.owner, RunConfig())
    run.refresh_from_db()
    assert run.state == Run.State.QUEUED
    publisher().flush(SECONDS)
    assert "workers poll the database" in caplog.text


def test_old_workers_and_frames_are_deleted_and_new_ones_kept(run: Run) -> None:
    now = timezone.now()
    actions.do_record_heartbeat("old", now - timedelta(days=2), device="CPU")
    actions.do_record_heartbeat("new", now, device="CPU")
    run.batches.create(first_seq=1, last_seq=2, frame="{}")
    Run.objects.filter(pk=run.pk).update(seq=2)
    assert actions.do_prune(now) == 0
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED, ended_at=now - timedelta(days=2))
    assert actions.do_prune(now) == 1
    assert [worker.name for worker in Worker.objects.all()] == ["new"]


def test_a_returning_worker_keeps_its_start_time(db: None) -> None:
    now = timezone.now()
    first = actions.do_record_heartbeat("w", now, device="CPU")
    again = actions.do_record_heartbeat("w", now + timedelta(seconds=5), device="CPU", stopping=True)
    assert (again.pk, again.started_at, again.stopping) == (first.pk, now, True)


def test_runs_are_visible_to_the_team_only(run: Run, people: People) -> None:
    from django.contrib.auth.models import AnonymousUser
    from django.http import Http404

    assert get_run(people.owner, run.slug) == run
    assert get_run(people.viewer, run.slug) == run
    for stranger in (people.outsider, AnonymousUser()):
        with pytest.raises(Http404):
            get_run(stranger, run.slug)


def test_a_form_sent_twice_launches_one_run(people: People) -> None:
    first, again = (do_create_run(people.team, people.owner, RunConfig(), launch_key="from the form") for _ in range(2))
    assert first.pk == again.pk
    assert do_create_run(people.team, people.viewer, RunConfig(), launch_key="from the form").pk != first.pk
    without = [do_create_run(people.team, people.owner, RunConfig()) for _ in range(2)]
    assert len({run.pk for run in without}) == 2
