"""Snapshot of a live page: contents and query count."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pytest_django import DjangoAssertNumQueries

from tests.webapp import journal_builder
from webapp.ingest.tailer import JournalTailer
from webapp.live.snapshot import CURVES, snapshot
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory


@pytest.mark.django_db
def test_a_run_that_has_not_started_has_an_empty_page(run: Run) -> None:
    page = snapshot(run)
    assert (page["seq"], page["attempt"], page["state"]) == (0, 0, "queued")
    assert page["phase"] is page["wall"] is page["stage"] is page["alarm"] is page["run"]["started_at"] is None
    assert page["evaluations"] == page["notices"] == page["alarms"] == page["rewinds"] == []
    assert not any(page["evidence"].values())
    assert page["curves"] == {name: [] for name in CURVES}


@pytest.mark.django_db
def test_during_a_rollout_the_page_shows_active_trajectories(run: Run, tmp_path: Path) -> None:
    journal_builder.write(
        tmp_path,
        journal_builder.started(),
        *journal_builder.iteration(1),
        journal_builder.group(2, 0, ["a", "b"]),
        journal_builder.group(2, 1, ["c", "d"]),
        journal_builder.turn("a", 0, valid=False),
        journal_builder.turn("c", 0),
        journal_builder.end("c", 1),
        journal_builder.turn("b", 0),
    )
    JournalTailer(run, tmp_path).drain()
    page = snapshot(run)
    slugs = dict(Trajectory.objects.values_list("key", "slug"))
    assert (page["wall"]["iteration"], page["wall"]["split"]) == (2, "train")
    members = [member for group in page["wall"]["groups"] for member in group["members"]]
    assert [(member["id"], member["status"], member["turns"], member["format_error"]) for member in members] == [
        ("a", "playing", 1, True),
        ("b", "playing", 1, False),
        ("c", "success", 1, False),
        ("d", "waiting", 0, False),
    ]
    assert page["wall"]["groups"][0]["members"][0]["slug"] == slugs["a"]
    assert (page["stage"]["id"], page["stage"]["success"], page["stage"]["hint"]["distance"]) == ("b", None, 1)
    assert page["stage"]["turns"][0]["thought"] == "I push."
    assert not {"seq", "time", "type", "trajectory"} & page["stage"]["turns"][0].keys()
    assert page["curves"]["reward/mean"] == [[1, 0.1]]


@pytest.mark.django_db
def test_a_finished_run_shows_evaluations_alarm_and_notices(run: Run, tmp_path: Path) -> None:
    journal_builder.write(tmp_path, *journal_builder.whole_run(2))
    JournalTailer(run, tmp_path).drain()
    page = snapshot(run)
    assert [(entry["iteration"], entry["final"]) for entry in page["evaluations"]] == [(0, False), (2, False)]
    assert page["alarm"] == {"state": "watch", "message": "The spread falls.", "iteration": 2}
    assert page["notices"] == [{"level": "warning", "message": "The disk is nearly full."}]
    assert (page["wall"]["split"], len(page["wall"]["groups"])) == ("eval", 2)
    assert page["stage"]["success"] is True
    assert json.loads(json.dumps(page)) == page


@pytest.mark.django_db
def test_the_snapshot_excludes_replaced_iterations(run: Run, tmp_path: Path) -> None:
    journal_builder.write(
        tmp_path,
        journal_builder.started(),
        *journal_builder.iteration(1),
        *journal_builder.iteration(2),
        journal_builder.started(2, 1),
        journal_builder.group(2, 0, ["2-0-0", "2-0-1"]),
    )
    JournalTailer(run, tmp_path).drain()
    page = snapshot(run)
    assert page["attempt"] == 2
    assert [group["group"] for group in page["wall"]["groups"]] == [0]
    assert page["curves"]["reward/mean"] == [[1, 0.1]]


@pytest.mark.django_db(transaction=True)
def test_the_query_count_is_constant_in_the_number_of_turns(
    run: Run, tmp_path: Path, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    journal_builder.write(tmp_path, *journal_builder.whole_run(3))
    JournalTailer(run, tmp_path).drain()
    with django_assert_max_num_queries(17):
        snapshot(run)
