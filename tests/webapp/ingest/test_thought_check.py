"""Thoughts of journals without claims: compared afterwards, once, with the state before each turn."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from tests.webapp import journal_builder
from trainer.journal import events as journal
from webapp.ingest.tailer import JournalTailer
from webapp.ingest.thought_check import do_compare_thoughts
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory

pytestmark = pytest.mark.django_db

THOUGHT = "I am at 2,2. Box 2,4."


@pytest.fixture
def old_run(run: Run, tmp_path: Path) -> Run:
    """A run whose trajectory "a" has two thoughts without claims; its board moves after the first turn."""
    moved = journal_builder.BOARD.model_copy(update={"rows": ["#####", "# @*#", "#####"]})
    first = journal_builder.turn("a", 0, THOUGHT)
    first.actions[0].board = moved
    events = [
        journal_builder.started(),
        journal_builder.group(1, 0, ["a", "b"]),
        first,
        journal_builder.turn("a", 1, THOUGHT),
        journal_builder.end("a", 2),
    ]
    journal_builder.write(tmp_path / "run", *events)
    JournalTailer(run, tmp_path / "run").drain()
    return run


def claims_of(run: Run) -> list[list[bool]]:
    turns = Trajectory.objects.get(run=run, key="a").turns.order_by("number")
    return [[claim["true"] for claim in turn.event.get("claims", [])] for turn in turns]


def test_thoughts_are_compared_once_with_the_state_before_their_turn(old_run: Run) -> None:
    assert claims_of(old_run) == [[], []]
    assert do_compare_thoughts(old_run) == 2
    assert claims_of(old_run) == [[True, False], [False, True]]
    played, waiting = Trajectory.objects.filter(run=old_run).order_by("key")
    assert (played.true_claims, played.false_claims) == (2, 2)
    assert played.false_claim_kinds == ["box_position", "own_position"]
    assert (waiting.true_claims, waiting.false_claims) == (None, None)
    assert do_compare_thoughts(old_run) == 0


def test_trajectories_that_are_being_played_are_left_to_the_ingest(old_run: Run) -> None:
    old_run.trajectories.filter(key="a").update(finished_seq=None)
    assert do_compare_thoughts(old_run) == 0
    assert claims_of(old_run) == [[], []]


def test_environments_that_compare_nothing_or_are_not_installed_are_left_out(old_run: Run) -> None:
    for name in ("MetaMathQA", "NotInstalled"):
        old_run.groups.update(environment=name)
        assert do_compare_thoughts(old_run) == 0
    assert claims_of(old_run) == [[], []]


def test_the_command_compares_all_runs_or_those_named(old_run: Run) -> None:
    with pytest.raises(CommandError, match="There is no run nothing"):
        call_command("compare_thoughts", "nothing")
    out = StringIO()
    call_command("compare_thoughts", stdout=out)
    assert out.getvalue() == f"2 thoughts compared: /runs/{old_run.slug}/trajectories\n"
    call_command("compare_thoughts", old_run.slug, stdout=(again := StringIO()))
    assert again.getvalue() == ""


def test_claims_of_the_journal_are_counted_as_they_come(run: Run, tmp_path: Path) -> None:
    first, second = journal_builder.turn("a", 0, THOUGHT), journal_builder.turn("a", 1, THOUGHT)
    first = journal.Turn.model_validate(
        first.model_dump() | {"claims": [{"start": 0, "end": 4, "true": True}, {"start": 5, "end": 7, "true": False}]}
    )
    events = [journal_builder.started(), journal_builder.group(1, 0, ["a"]), first, second]
    journal_builder.write(tmp_path / "run", *events)
    JournalTailer(run, tmp_path / "run").drain()
    trajectory = Trajectory.objects.get(run=run)
    assert (trajectory.true_claims, trajectory.false_claims) == (1, 1)
