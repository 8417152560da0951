"""Marks of ended attempts, stored in the background: with real environments, for lists, filters and exports."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

import envs
from envs.base import TextEnv
from tests.webapp import journal_builder
from tests.webapp.trajectories.scripted_attempt import LOCKED, events, sokoban
from webapp.core import scheduler
from webapp.explorer.rows import rows
from webapp.explorer.trajectory_filters import Filters, filter_trajectories
from webapp.ingest import marks
from webapp.ingest.marks import do_judge_attempts, do_judge_waiting, waiting
from webapp.ingest.rebuild import do_rebuild
from webapp.ingest.tailer import JournalTailer
from webapp.runs.models import Run
from webapp.trajectories.mistakes.judge import Mark, find_marks
from webapp.trajectories.mistakes.values import MarkClass
from webapp.trajectories.models import Trajectory, Turn
from webapp.trajectories.serialize import player_data

pytestmark = pytest.mark.django_db
WorstMark = Trajectory.WorstMark


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


def play(run: Run, folder: Path, env: TextEnv, turns: list[list[str]], environment: str = "Sokoban") -> Trajectory:
    """One attempt, ingested; Sokoban under the budgets of the run's configuration."""
    written: list[Any] = list(events(env, turns))
    written[1] = written[1].model_copy(update={"environment": environment})
    journal_builder.write(folder, *written)
    JournalTailer(run, folder).drain()
    return Trajectory.objects.get(run=run)


def test_an_ended_attempt_is_judged_with_the_marks_of_the_player(run: Run, folder: Path) -> None:
    played = play(run, folder, sokoban(), LOCKED)
    assert played.worst_mark is None, "the ingest does not wait for the judge"
    assert do_judge_waiting() == 1
    played.refresh_from_db()
    assert played.worst_mark == WorstMark.BLUNDER
    assert played.first_mistake_turn == 1
    wanted = player_data(Trajectory.objects.select_related("group", "run").get())["marks"]
    stored = [{"turn": turn.number} | mark for turn in played.turns.order_by("number") for mark in turn.marks or ()]
    names = stored[0].keys()
    assert stored == [{name: mark[name] for name in names} for mark in wanted]
    assert {mark["kind"] for mark in stored} >= {"blunder"}
    assert do_judge_waiting() == 0


@pytest.mark.parametrize(("kind", "turn"), [("inaccuracy", None), ("mistake", 1), ("blunder", 1)])
def test_the_first_mistake_is_no_inaccuracy(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, kind: MarkClass, turn: int | None
) -> None:
    def find(steps: Any) -> list[Mark]:
        return [replace(mark, kind=kind) for mark in find_marks(steps)]

    monkeypatch.setattr(marks, "find_marks", find)
    played = play(run, folder, sokoban(), LOCKED)
    do_judge_waiting()
    played.refresh_from_db()
    assert (played.worst_mark, played.first_mistake_turn) == (WorstMark[kind.upper()], turn)


def test_the_comment_on_an_attempt_is_stored_and_found_by_its_words(run: Run, folder: Path) -> None:
    played = play(run, folder, sokoban(), LOCKED)
    assert not filter_trajectories(run, Filters(text="locked")).exists()
    do_judge_waiting()
    played.refresh_from_db()
    verdict = player_data(Trajectory.objects.select_related("group", "run").get())["verdict"]
    assert played.commentary.startswith(verdict["sentence"])
    filters = Filters(text='"locked the box"')
    found = filter_trajectories(run, filters).select_related("group")
    assert found.get() == played
    assert ("locked the box", True) in rows(list(found), filters)[0].excerpt


def test_an_attempt_without_mistakes_has_the_mark_none(run: Run, folder: Path) -> None:
    env = sokoban()
    solution = []
    while (hint := env.hint()) is not None and hint.actions:
        solution.append(hint.actions[0])
        env.step(solution[-1])
    played = play(run, folder, sokoban(), [solution])
    do_judge_waiting()
    played.refresh_from_db()
    assert (played.worst_mark, played.first_mistake_turn) == (WorstMark.NONE, None)
    assert not played.turns.filter(marks__isnull=False).exists()


def test_boards_without_a_grid_are_judged(run: Run, folder: Path) -> None:
    env = envs.make("Bandit")
    env.reset(seed=3)
    played = play(run, folder, env, [["Phoenix"]], "Bandit")
    do_judge_waiting()
    played.refresh_from_db()
    assert played.worst_mark == WorstMark.BLUNDER
    assert [turn.marks[0]["better"] for turn in played.turns.all()] == [["Dragon"]]


def test_without_a_value_of_the_solver_an_attempt_is_not_judged(run: Run, folder: Path) -> None:
    written = [event.model_copy(update={"hint": None}) if hasattr(event, "hint") else event
               for event in (journal_builder.started(), journal_builder.group(1, 0, ["a"]),
                             journal_builder.turn("a", 0), journal_builder.end("a", 1, False))]  # fmt: skip
    journal_builder.write(folder, *written)
    JournalTailer(run, folder).drain()
    assert do_judge_waiting() == 1
    attempt = Trajectory.objects.get()
    assert attempt.worst_mark == WorstMark.UNKNOWN
    assert attempt.commentary == "Lost at turn 1, action 1: the box is in a corner."
    assert do_judge_waiting() == 0, "it does not wait again"


def test_attempts_that_are_being_played_wait_for_their_end(run: Run, folder: Path) -> None:
    journal_builder.write(
        folder, journal_builder.started(), journal_builder.group(1, 0, ["a"]), journal_builder.turn("a", 0)
    )
    JournalTailer(run, folder).drain()
    assert do_judge_waiting() == 0


def test_an_attempt_that_cannot_be_judged_does_not_hold_up_the_others(
    run: Run, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal_builder.write(
        folder,
        journal_builder.started(),
        journal_builder.group(1, 0, ["a", "b"]),
        journal_builder.turn("a", 0),
        journal_builder.turn("b", 0),
        journal_builder.end("a", 1),
        journal_builder.end("b", 1),
    )
    JournalTailer(run, folder).drain()
    broken = Turn.objects.get(trajectory__key="b")
    Turn.objects.filter(pk=broken.pk).update(event=broken.event | {"actions": [{"status": "executed", "hint": 3}]})
    assert do_judge_waiting() == 2
    assert Trajectory.objects.get(key="b").worst_mark == WorstMark.UNKNOWN
    assert Trajectory.objects.get(key="a").worst_mark is not None
    assert "cannot be judged" in caplog.text


def test_a_round_ends_after_its_time_with_the_newest_attempts(run: Run, folder: Path) -> None:
    keys = [f"k{number}" for number in range(5)]
    turns = [journal_builder.turn(key, 0) for key in keys]
    journal_builder.write(
        folder,
        journal_builder.started(),
        journal_builder.group(1, 0, keys),
        *turns,
        *(journal_builder.end(key, 1) for key in keys),
    )
    JournalTailer(run, folder).drain()
    assert do_judge_attempts(waiting(), seconds=0) == 1
    assert list(waiting().order_by("pk").values_list("key", flat=True)) == keys[:4]
    assert do_judge_attempts(waiting()) == 4


def test_the_queue_is_found_by_its_index(run: Run, folder: Path) -> None:
    play(run, folder, sokoban(), LOCKED)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan TO off")
        plan = waiting().order_by("-pk")[:50].explain()
    assert "trajectory_unjudged" in plan
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert do_judge_waiting() == 1
    assert not any("FOR UPDATE" in query["sql"] for query in queries), "no row is locked while it is judged"


def test_a_rebuilt_attempt_is_judged_anew(run: Run, folder: Path) -> None:
    played = play(run, folder, sokoban(), LOCKED)
    seen = Trajectory.objects.select_related("group", "run").get()
    do_rebuild(run, folder)
    marks._store(seen, marks.Judged(WorstMark.NONE, None, "", {}))
    played.refresh_from_db()
    assert played.worst_mark == WorstMark.NONE, "the same journal ends at the same event"
    do_rebuild(run, folder)
    Trajectory.objects.update(finished_seq=99)
    marks._store(seen, marks.Judged(WorstMark.NONE, None, "", {}))
    played.refresh_from_db()
    assert played.worst_mark is None, "what was judged is not what is there now"
    assert do_judge_waiting() == 1


def test_the_command_judges_all_runs_or_those_named_and_again(run: Run, folder: Path) -> None:
    play(run, folder, sokoban(), LOCKED)
    with pytest.raises(CommandError, match="There is no run nothing"):
        call_command("judge_attempts", "nothing")
    texts = []
    for arguments in ([], [run.slug], [run.slug, "--again"]):
        call_command("judge_attempts", *arguments, stdout=(out := StringIO()))
        texts.append(out.getvalue())
    judged = f"1 attempts judged: /runs/{run.slug}/trajectories\n"
    assert texts == [judged, "", judged]
    assert [turn.number for turn in Turn.objects.filter(marks__isnull=False)] == [1]


def test_the_clock_has_the_job() -> None:
    assert "marks" in {job.name for job in scheduler._jobs}
