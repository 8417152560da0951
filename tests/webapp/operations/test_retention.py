"""Retention of old runs."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django import Settings

from tests.webapp import played_branches
from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, play, who
from webapp.operations.retention import do_thin, thinnable
from webapp.runs.models import Run
from webapp.trajectories.actions import do_share_trajectory
from webapp.trajectories.models import Group, Trajectory

__all__ = ["who"]


@pytest.fixture
def old(run: Run, tmp_path: Path, settings: Settings) -> Run:
    """A run of two iterations, ended forty days ago."""
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    play(run, finished=3)
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED, ended_at=timezone.now() - timedelta(days=40))
    run.refresh_from_db()
    return run


def kept(run: Run) -> set[int]:
    return set(Trajectory.objects.filter(run=run).values_list("pk", flat=True))


def test_without_a_retention_setting_nothing_is_deleted(old: Run) -> None:
    before = kept(old)
    assert do_thin(timezone.now()) == 0
    assert kept(old) == before


def test_only_runs_past_their_retention_are_thinned(old: Run, people: People) -> None:
    people.team.retention_days = 41
    people.team.save()
    assert do_thin(timezone.now()) == 0
    Run.objects.filter(pk=old.pk).update(state=Run.State.PAUSED)
    people.team.retention_days = 30
    people.team.save()
    assert do_thin(timezone.now()) == 0, "a paused run goes on some day"


def test_attempts_stay_with_a_branch_that_stays(old: Run, people: People) -> None:
    people.team.retention_days = 30
    people.team.save()
    attempt, other = thinnable(timezone.now()).filter(turn_count__gte=2).order_by("pk")[:2]
    made = [played_branches.branches(one, people.owner, [True], turn=0, turns=2) for one in (attempt, other)]
    parents = [played_branches.branch_of(question) for question in made]
    made += [played_branches.branches(parent, people.owner, [True], turn=1) for parent in parents]
    shared, gone = (played_branches.branch_of(question) for question in made[2:])
    do_share_trajectory(shared, people.owner)
    do_thin(timezone.now())
    left = set(Trajectory.with_branches.filter(split="branch").values_list("pk", flat=True))
    assert left == {parents[0].pk, shared.pk}
    assert attempt.pk in kept(old)
    assert other.pk not in kept(old)
    assert gone.pk not in left


def test_a_thinned_run_remains_readable(old: Run, people: People, who: Visitors) -> None:
    people.team.retention_days = 30
    people.team.save()
    Trajectory.objects.filter(run=old, iteration=1, group__number=1, member=0).update(split="eval")
    question = played_branches.ask(Trajectory.objects.filter(run=old, split="eval")[0], people.owner, turn=0)
    played_branches.begin(question)
    may_go = list(thinnable(timezone.now()).order_by("pk"))
    pinned, shared, *others = may_go
    Trajectory.objects.filter(pk=pinned.pk).update(pinned=True)
    link = do_share_trajectory(shared, people.owner)
    groups, evaluated = Group.objects.filter(run=old).count(), Trajectory.objects.filter(run=old, split="eval").count()
    assert do_thin(timezone.now()) == len(others) > 0
    assert do_thin(timezone.now()) == 0
    assert {pinned.pk, shared.pk} <= kept(old)
    assert not Trajectory.with_branches.filter(group=question.group_id).exists(), "branches go first"
    assert kept(old).isdisjoint({one.pk for one in others})
    assert Trajectory.objects.filter(run=old, split="eval").count() == evaluated > 0
    assert Group.objects.filter(run=old).count() == groups
    for iteration in range(1, old.iteration + 1):
        assert Trajectory.objects.filter(run=old, iteration=iteration, split="train", group__number=0).exists()
    for tab in ("", "trajectories", "curves", "evaluation"):
        assert who.owner.get(f"/runs/{old.slug}/{tab}").status_code == 200
    assert who.anonymous.get(f"/s/{link.token}").status_code == 200
