"""Outcomes of cells from their journals: rewinds, repeated attempts, puzzles, costs."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace

import pytest

from trainer.journal import events
from trainer.journal.writer import Journal
from trainer.studies import cell_journal, grid
from trainer.studies.catalogue import find


def evaluation(iteration, success, suite="Bandit"):
    return events.Evaluation(
        iteration=iteration,
        suite=suite,
        prompts=2,
        success=success,
        success_low=0,
        success_high=1,
        mean_reward=0,
        mean_turns=1,
        mean_actions=1,
    )


def metrics(iteration, value, **more):
    values = {"success/rate": value} | {name.replace("_", "/"): number for name, number in more.items()}
    return events.Metrics(iteration=iteration, tokens=1, seconds=1, values=values)


def start(attempt, done, evaluated):
    return events.RunStarted(
        attempt=attempt,
        from_iteration=done,
        evaluated_iteration=evaluated,
        iterations=3,
        title="",
        config={},
        device="",
        parameters=1,
        versions={},
    )


def played(iteration, suite, successes, attempt=1):
    """An evaluation with one trajectory on each puzzle, without its result."""
    names = [f"{suite}-{iteration}-{number}" for number in range(len(successes))]
    board = {"kind": "arms", "arms": []}
    for number, name in enumerate(names):
        yield events.GroupStarted(
            iteration=iteration,
            split="eval",
            suite=suite,
            group=number,
            environment="Bandit",
            seed=number,
            prompt="",
            board=board,
            members=[name],
        )
    for name, success in reversed(list(zip(names, successes, strict=True))):
        yield events.TrajectoryFinished(
            trajectory=name, success=success, end="terminated", total_reward=0.0, turns=1, actions=1, tokens=1
        )


@pytest.fixture
def recorded(tmp_path):
    """A cell whose journal holds the given events."""

    def record(*written):
        cell = replace(grid.cells(find("table-4"), "smoke", 1, tmp_path)[0], folder=tmp_path / "bandit" / "think" / "0")
        with closing(Journal(cell.folder)) as journal:
            journal.write(*written)
        return cell

    return record


def test_a_rewind_takes_success_back_and_not_what_was_detected_and_spent(recorded):
    trapped = events.Alarm(iteration=3, state="trapped", message="gone")
    read = cell_journal.read(
        recorded(
            start(1, 0, -1),
            *(metrics(n, 0.5, time_update=2.0, update_steps=4.0) for n in (1, 2, 3)),
            trapped,
            events.Rewound(number=1, from_iteration=3, to_iteration=1),
            start(2, 1, 0),
            metrics(2, 0.6, time_update=1.0, update_steps=1.0),
            metrics(3, 0.7, time_update=1.0, update_steps=1.0),
            start(3, 2, 0),  # a stop: the third iteration is played again, and counts once
            metrics(3, 0.8, time_update=1.0, update_steps=1.0),
        )
    )
    assert read.curves["success/rate"] == {1: 0.5, 2: 0.6, 3: 0.8}
    assert read.trapped == 3
    assert read.rewinds == 1
    assert read.update_seconds == pytest.approx(3 * 2.0 + 2 * 1.0)
    assert read.steps == pytest.approx(3 * 4 + 2 * 1)


def test_the_last_evaluation_holds_the_result_of_each_puzzle(recorded):
    read = cell_journal.read(
        recorded(
            start(1, 0, -1),
            *played(0, "Bandit", [False, False]),
            evaluation(0, 0.0),
            *played(3, "Bandit", [True, False, True]),
            start(2, 2, 0),
            *played(3, "Bandit", [True, False]),
            *played(3, "BanditTest", [False, True]),
            evaluation(3, 0.5),
            evaluation(3, 0.5, "BanditTest"),
        )
    )
    assert [result.puzzles for result in read.evaluations["Bandit"]] == [(0.0, 0.0), (1.0, 0.0)]
    assert read.final("BanditTest").puzzles == (0.0, 1.0)


def test_a_cell_remembers_the_sessions_in_which_it_ran(tmp_path, monkeypatch):
    cells = grid.cells(find("table-4"), "smoke", 1, tmp_path)[:2]
    for cell in cells:
        cell.folder.mkdir(parents=True)
        with closing(Journal(cell.folder)) as journal:
            journal.write(start(1, 0, -1))
        grid._add_cost(cell.folder, 2.0, 1024)
    here = cell_journal.read(cells[0]).timed_in
    assert here == cell_journal.read(cells[1]).timed_in
    monkeypatch.setattr(grid, "SESSION", "later")
    grid._add_cost(cells[0].folder, 3.0, 2048)
    read = cell_journal.read(cells[0])
    assert read.timed_in == (*here, "later")
    assert (read.seconds, read.megabytes) == (5.0, 2.0)
    moved = replace(cells[1], folder=tmp_path / "other" / "sokoban" / "think" / "seed-0")
    shutil.copytree(cells[1].folder, moved.folder)
    assert cell_journal.read(moved).timed_in[0] == str((tmp_path / "other").resolve())
    assert cell_journal.read(moved).timed_in != here


def test_costs_recorded_before_sessions_were_are_read(tmp_path):
    (tmp_path / grid.COST).write_text('{"seconds": 7.5, "megabytes": 100.0}\n')
    assert grid.read_cost(tmp_path) == grid.Cost(7.5, 100.0, [])


def test_the_last_attempt_at_an_iteration_counts(tmp_path):
    cell = replace(grid.cells(find("table-4"), "smoke", 1, tmp_path)[0], folder=tmp_path / "cell")
    journal = Journal(cell.folder)
    alarm = events.Alarm(iteration=2, state="trapped", message="gone")
    journal.write(start(1, 0, -1), evaluation(0, 0.5), metrics(1, 0.1), metrics(2, 0.2), evaluation(2, 0.9), alarm)
    journal.write(start(2, 1, 0), metrics(2, 0.3), metrics(3, 0.4), evaluation(3, 0.75))
    read = cell_journal.read(cell)
    assert read.curves["success/rate"] == {1: 0.1, 2: 0.3, 3: 0.4}
    assert [(result.iteration, result.success) for result in read.evaluations["Bandit"]] == [(0, 0.5), (3, 0.75)]
    assert read.trapped is None
    assert read.final().success == 0.75
