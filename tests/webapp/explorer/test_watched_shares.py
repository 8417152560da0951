"""Shares of watched views: computed by the clock from ingested attempts, once for each iteration that has ended."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from tests.webapp import journal_builder
from tests.webapp.conftest import People, create_run
from tests.webapp.page_requests import Visitors, who
from trainer.journal import events as journal
from webapp.explorer import watched_shares
from webapp.explorer.watched_shares import do_compute_shares, due
from webapp.explorer.watching import do_stop_watching, do_watch
from webapp.ingest.rebuild import do_rebuild
from webapp.ingest.tailer import JournalTailer
from webapp.runs.models import MetricPoint, Run
from webapp.saved_views.actions import do_save_view
from webapp.saved_views.models import SavedView
from webapp.teams.models import Membership
from webapp.trajectories.models import Trajectory, Turn

__all__ = ["who"]
Watch = Callable[..., SavedView]


@pytest.fixture
def watch(people: People) -> Watch:
    def begin(query: str, name: str = "Some view", threshold: float | None = None) -> SavedView:
        view = do_save_view(people.owner, SavedView.List.TRAJECTORIES, name, query, people.team)
        return do_watch(view, threshold)

    return begin


def take_in(run: Run, *events: journal.Event) -> Run:
    journal_builder.write(run.folder, *events)
    run.refresh_from_db()
    JournalTailer(run).drain()
    run.refresh_from_db()
    return run


def shares(run: Run, name: str = "watched/some-view") -> dict[int, float]:
    return dict(MetricPoint.objects.filter(run=run, name=name).values_list("iteration", "value"))


def test_each_iteration_that_has_ended_gets_one_point(run: Run, watch: Watch) -> None:
    watch("format=broken&iteration_min=2&sort=-reward")
    *begun, _metrics = journal_builder.iteration(3)
    take_in(run, journal_builder.started(), *journal_builder.iteration(1), *journal_builder.iteration(2), *begun)
    assert due().get() == run
    assert do_compute_shares() == 2
    assert shares(run) == {1: 0.75, 2: 0.75}, "iterations and order are not filters of a share"
    point = MetricPoint.objects.get(run=run, name="watched/some-view", iteration=2)
    assert (point.tokens, point.seconds) == (200, 4.0), "it stands below the other metrics of its iteration"
    assert not due().exists()
    assert do_compute_shares() == 0
    MetricPoint.objects.filter(name="watched/some-view").update(value=0.5)
    take_in(run, _metrics)
    assert do_compute_shares() == 1
    assert shares(run) == {1: 0.5, 2: 0.5, 3: 0.75}, "what was computed is not computed again"


def test_what_a_resumed_run_repeats_and_what_a_rebuild_replaces_is_computed_anew(run: Run, watch: Watch) -> None:
    watch("outcome=success")
    take_in(run, journal_builder.started(), *journal_builder.iteration(1), *journal_builder.iteration(2))
    do_compute_shares()
    assert shares(run) == {1: 0.5, 2: 0.5}
    take_in(run, journal_builder.started(attempt=2, from_iteration=1))
    assert shares(run) == {1: 0.5}
    take_in(run, *journal_builder.iteration(2, groups=1))
    assert do_compute_shares() == 1
    do_rebuild(run)
    assert shares(run) == {}
    assert do_compute_shares() == 2
    assert shares(run) == {1: 0.5, 2: 0.5}


def test_a_share_of_marks_waits_for_the_judge(run: Run, watch: Watch) -> None:
    watch("mark=blunder")
    take_in(run, journal_builder.started(), *journal_builder.iteration(1), *journal_builder.iteration(2))
    Trajectory.objects.filter(iteration=1).update(worst_mark=Trajectory.WorstMark.BLUNDER)
    assert do_compute_shares() == 1
    assert shares(run) == {1: 1.0}
    assert due().exists()
    Trajectory.objects.filter(iteration=2).update(worst_mark=Trajectory.WorstMark.UNKNOWN)
    do_compute_shares()
    assert shares(run) == {1: 1.0, 2: 0.0}
    assert not due().exists()


def test_the_newest_iteration_of_another_trainer_waits_for_the_next_one_or_the_end(run: Run, watch: Watch) -> None:
    watch("outcome=success")
    Run.objects.update(config=run.config | {"recorded": {}})
    take_in(run, journal_builder.started(), *journal_builder.iteration(1), *journal_builder.iteration(2))
    do_compute_shares()
    assert shares(run) == {1: 0.5}
    take_in(run, journal.RunFinished(reason="completed", message="", iteration=2, summary={}))
    do_compute_shares()
    assert shares(run) == {1: 0.5, 2: 0.5}


def test_only_runs_of_the_team_that_ended_lately_are_computed(run: Run, watch: Watch, people: People) -> None:
    watch("outcome=success")
    take_in(run, journal_builder.started(), *journal_builder.iteration(1))
    Run.objects.update(ended_at=timezone.now() - timedelta(days=31))
    assert not due().exists()
    Run.objects.update(ended_at=None, team=people.outsider.memberships.get().team)
    assert do_compute_shares() == 0


def test_a_view_is_watched_while_its_author_is_in_the_team(run: Run, watch: Watch, people: People) -> None:
    view = watch("outcome=success")
    take_in(run, journal_builder.started(), *journal_builder.iteration(1))
    Membership.objects.filter(user=people.owner).delete()
    assert do_compute_shares() == 0
    Membership.objects.create(team=people.team, user=people.owner, role=Membership.Role.MEMBER)
    do_stop_watching(view)
    assert do_compute_shares() == 0


def test_a_round_ends_in_time_and_the_next_one_continues(
    run: Run, watch: Watch, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch("outcome=success")
    watch("outcome=failed", "Other")
    second = create_run(people, "Second")
    for each in (run, second):
        take_in(each, journal_builder.started(), *journal_builder.iteration(1), *journal_builder.iteration(2))
    monkeypatch.setattr(watched_shares, "ROUND_SECONDS", 0.0)
    assert do_compute_shares() == 0
    monkeypatch.undo()
    assert do_compute_shares() == 8
    assert [shares(each, "watched/other") for each in (run, second)] == [{1: 0.5, 2: 0.5}] * 2


def test_a_slow_expression_holds_up_nothing(run: Run, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    watch(r"pattern=^(.%2B)(.%2B)(.%2B)%5C3%5C2%5C1$")
    watch("outcome=success", "Quick")
    take_in(run, journal_builder.started(), *journal_builder.iteration(1))
    for turn in Turn.objects.all():
        turn.event["response"] = "abcdefghi" * 400
        turn.save()
    monkeypatch.setattr(watched_shares, "STATEMENT_SECONDS", 0.05)
    assert do_compute_shares() == 1
    assert (shares(run), shares(run, "watched/quick")) == ({}, {1: 0.5})
    assert not due().exists()


def test_the_curve_is_a_metric_like_any_other(run: Run, watch: Watch, who: Visitors) -> None:
    watch("outcome=success", "Solved: überall!")
    take_in(run, journal_builder.started(), *journal_builder.iteration(1))
    do_compute_shares()
    page = who.viewer.get(f"/runs/{run.slug}/curves").content.decode()
    assert "Watched views" in page
    assert "Solved uberall" in page
    answer = who.viewer.get(f"/runs/{run.slug}/curves.json?names=watched/solved-uberall").json()
    assert answer["runs"][run.slug]["watched/solved-uberall"]["value"] == [0.5]
