"""Recorded runs of a real model: each opens as a run of the team, once, and is what its description says."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from tests.patience import wait_until
from tests.tiers import nightly_but
from tests.webapp.page_requests import Visitors, who
from webapp.api.uploads import SENDER_TIMEOUT, do_finish_silent_imports
from webapp.ingest.recorded_runs import BROKEN, RECORDINGS, Recording
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory

__all__ = ["who"]

SHORTEST = min(RECORDINGS, key=lambda recording: recording.path.stat().st_size)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("recording", nightly_but(RECORDINGS, [SHORTEST]), ids=lambda recording: recording.name)
def test_a_recording_opens_whole_and_only_once(who: Visitors, recording: Recording) -> None:
    first = who.owner.post(f"/recordings/{recording.name}")
    wait_until(lambda: Run.objects.filter(state=Run.State.FINISHED).exists())
    (run,) = Run.objects.all()
    assert first.headers["Location"] == f"/runs/{run.slug}/"
    assert (run.title, run.state, run.journal_error) == (recording.title, Run.State.FINISHED, "")
    success = dict(run.evaluations.values_list("iteration", "success"))
    stages = [success[iteration] for iteration in (min(success), 0, max(success))]
    said = map(int, re.findall(r"(\d+)(?:%| to)", recording.about))
    assert [round(100 * share) for share in stages] == list(said)
    attempts = Trajectory.objects.filter(run=run).count()
    again = who.owner.post(f"/recordings/{recording.name}")
    assert again.headers["Location"] == first.headers["Location"]
    assert Trajectory.objects.filter(run=run).count() == attempts > 500


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("name", "cause"),
    [
        pytest.param("other_sampler", "mismatch"),
        pytest.param("hanging_environment", "environment_timeouts", marks=pytest.mark.nightly),
        pytest.param("equal_rewards", "no_signal", marks=pytest.mark.nightly),
    ],
)
def test_a_broken_run_opens_with_its_fault(who: Visitors, name: str, cause: str) -> None:
    who.owner.post(f"/recordings/{name}")
    wait_until(lambda: Run.objects.filter(state=Run.State.FINISHED).exists())
    (run,) = Run.objects.all()
    assert run.title == next(recording.title for recording in BROKEN if recording.name == name)
    assert (run.condition and run.condition.state, run.faults[0]["cause"]) == ("sick", cause)
    assert run.faults[0]["since"] in (6, 7, 8)


def test_a_recording_whose_import_was_cut_off_counts_as_stopped(who: Visitors) -> None:
    who.owner.post(f"/recordings/{RECORDINGS[0].name}")  # nothing is committed, so its reader never starts
    assert do_finish_silent_imports(timezone.now()) == 0
    assert do_finish_silent_imports(timezone.now() + SENDER_TIMEOUT + timedelta(minutes=1)) == 1
    assert Run.objects.get().state == Run.State.STOPPED
