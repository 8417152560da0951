"""Watching: which views can be watched, the names of their curves, and when watching ends."""

from __future__ import annotations

import pytest

from tests.webapp.conftest import People
from webapp.explorer import watching
from webapp.explorer.scanners import SCANNERS, Scanner
from webapp.explorer.trajectory_filters import read_query
from webapp.explorer.watching import do_stop_watching, do_watch, do_watch_scanner, share_problem
from webapp.runs.models import MetricPoint, Run
from webapp.saved_views.actions import ViewRefused, do_delete_view, do_save_view
from webapp.saved_views.models import SavedView
from webapp.teams.models import AuditEntry

TRAJECTORIES = SavedView.List.TRAJECTORIES


def save(people: People, name: str = "Mine", query: str = "outcome=success") -> SavedView:
    return do_save_view(people.owner, TRAJECTORIES, name, query, people.team)


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("split=eval&outcome=success", "remove the filters that choose evaluations"),
        ("suite=fixed", "remove the filters that choose evaluations"),
        ("outcome=playing", "choose another outcome"),
        ("sort=-mismatch", "add a filter"),
        ("iteration_min=3&split=train", "add a filter"),
        ("starred=yes", ""),
        ("tag=odd&iteration=4", ""),
    ],
)
def test_filters_that_make_no_sense_as_a_share_are_explained(query: str, problem: str) -> None:
    found = share_problem(read_query(query))
    assert problem in found
    assert bool(problem) == bool(found)


def test_shipped_scanners_can_be_watched_except_those_that_only_sort(people: People) -> None:
    refused = {scanner.name for scanner in SCANNERS if share_problem(read_query(scanner.query))}
    assert refused == {"Mismatched tokens"}
    scanner = next(scanner for scanner in SCANNERS if scanner.name == "Solved by luck")
    view = do_watch_scanner(people.team, people.owner, scanner, 0.25)
    assert (view.name, view.team, view.metric, view.threshold) == (
        "Solved by luck", people.team, "watched/solved-by-luck", 0.25
    )  # fmt: skip
    again = do_watch_scanner(people.team, people.viewer, scanner, None)
    assert (again.pk, again.threshold, again.curve) == (view.pk, None, view.curve)
    assert list(AuditEntry.objects.values_list("subject", flat=True)) == ["the view “Solved by luck”: watched"] * 2


def test_a_scanner_does_not_replace_a_view_of_the_same_name(people: People) -> None:
    scanner: Scanner = SCANNERS[0]
    save(people, scanner.name)
    with pytest.raises(ViewRefused, match="Rename it first"):
        do_watch_scanner(people.team, people.owner, scanner, None)
    assert SavedView.objects.get().query == "outcome=success"


def test_each_watched_view_of_a_team_has_its_own_curve(people: People) -> None:
    names = ["Wrong!", "wrong", "Wrong?", "漢字", "x" * 60, "x" * 60 + "!"]
    views = [do_watch(save(people, name[:60]), None) for name in names[:5]]
    assert [view.curve for view in views[:3]] == ["wrong", "wrong-2", "wrong-3"]
    assert views[3].curve == f"view-{views[3].pk}"
    assert views[4].curve == "x" * 60


def test_a_team_watches_a_limited_number_of_views(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "MAX_WATCHED", 1)
    first = do_watch(save(people), None)
    with pytest.raises(ViewRefused, match="Stop watching one"):
        do_watch(save(people, "Second"), None)
    assert do_watch(first, 0.5).threshold == 0.5
    do_delete_view(first)
    assert do_watch(SavedView.objects.get(name="Second"), None).curve == "second"


def test_other_filters_end_watching_and_a_new_curve_begins_empty(run: Run, people: People) -> None:
    view = do_watch(save(people), 0.5)
    assert save(people, query="outcome=success&sort=-reward").curve == "mine"
    MetricPoint.objects.create(run=run, name="watched/mine", iteration=1, value=0.5, tokens=1, seconds=1)
    assert save(people, query="outcome=failed").curve == ""
    assert MetricPoint.objects.count() == 1
    assert do_watch(view, None).curve == "mine"
    assert not MetricPoint.objects.exists()


def test_a_curve_remains_when_watching_ends(run: Run, people: People) -> None:
    view = do_watch(save(people), None)
    MetricPoint.objects.create(run=run, name="watched/mine", iteration=1, value=0.5, tokens=1, seconds=1)
    do_stop_watching(view)
    assert not SavedView.objects.watched().exists()
    assert MetricPoint.objects.count() == 1
