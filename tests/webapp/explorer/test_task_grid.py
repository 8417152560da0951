"""Grid of tasks by iterations: what each cell counts, which part is shown, and the orders of rows."""

from __future__ import annotations

import pytest

import echoscope
from tests.webapp import journal_builder
from tests.webapp.fragments import contains
from tests.webapp.javascript import evaluate
from tests.webapp.page_requests import Visitors, who
from webapp.explorer import task_grid
from webapp.explorer.task_grid import load_grid, load_parts
from webapp.ingest.tailer import JournalTailer
from webapp.runs.models import Run

__all__ = ["who"]

SOLVED = {1: {7: [True, False], 8: [False, False]}, 2: {8: [True, False]}, 4: {7: [True, True], 8: [False, True]}}
"""Successes by iteration and seed."""


@pytest.fixture
def played(run: Run) -> Run:
    recorder = echoscope.init("Words", folder=run.folder, environment="Words")
    for iteration, groups in SOLVED.items():
        for seed, successes in groups.items():
            for attempt, success in zip(recorder.group(2, iteration=iteration, seed=seed), successes, strict=True):
                attempt.finish(success=success, total_reward=2.0 * success)
    recorder.group(1, iteration=4, seed=7)[0].finish(success=None)
    JournalTailer(run).drain()
    return run


def test_a_cell_counts_the_attempts_at_a_task_in_an_iteration(played: Run) -> None:
    assert [(part.split, part.tasks, part.iterations, part.repeats) for part in load_parts(played)] == [
        ("train", 2, 3, True)
    ]
    grid = load_grid(played, "train", "")
    assert (grid["iterations"], grid["left_out"]) == ([1, 2, 4], {"tasks": 0, "iterations": 0})
    cells = {task["seed"]: task["cells"] for task in grid["tasks"]}
    assert cells["8"] == [[0, 1, 2, 0, 0.0], [1, 0, 2, 1, 1.0], [2, 1, 2, 1, 1.0]]
    assert cells["7"][0] == [0, 0, 2, 1, 1.0]
    assert cells["7"][1] == [2, 2, 2, 2, 2.0], "both groups of the task count, and the last one opens"


def test_the_largest_grid_has_the_newest_tasks_and_iterations(played: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_grid, "MAX_TASKS", 1)
    monkeypatch.setattr(task_grid, "MAX_CELLS", 4)
    grid = load_grid(played, "train", "")
    assert [task["seed"] for task in grid["tasks"]] == ["7"]
    assert grid["left_out"] == {"tasks": 1, "iterations": 2}


def test_the_page_shows_the_first_part_whose_tasks_repeat(run: Run, who: Visitors) -> None:
    address = f"/runs/{run.slug}/tasks"
    assert contains(who.viewer.get(address).content.decode(), "The grid appears when the first one has been played.")
    assert who.viewer.get(f"{address}.json").status_code == 404
    journal_builder.write(run.folder, *journal_builder.whole_run(2))
    JournalTailer(run).drain()
    page = who.viewer.get(address).content.decode()
    assert contains(page, "every puzzle, every evaluation")
    assert contains(who.viewer.get(f"{address}?split=train").content.decode(), "every puzzle, every iteration")
    assert who.viewer.get(f"{address}?split=train&suite=Other").status_code == 404
    data = who.viewer.get(f"{address}.json").json()
    assert data["iterations"] == [0, 2]
    assert all(len(task["cells"]) == 2 for task in data["tasks"])


def test_rows_have_the_chosen_order() -> None:
    def task(seed: int, *solved: int) -> dict[str, object]:
        return {
            "environment": "E",
            "seed": str(seed),
            "cells": [[at, 0, 4, won, None] for at, won in enumerate(solved)],
        }

    tasks = [task(30, 0, 1, 4), task(4, 4, 0, 1), task(11, 0, 0, 0), task(2, 3, 4, 4)]

    def order(name: str) -> list[str]:
        return [row["seed"] for row in evaluate("pages/task_grid.js", "ordered(data[0], data[1])", [tasks, name])]

    assert order("learnt") == ["4", "2", "30", "11"]
    assert order("hard") == ["11", "30", "4", "2"]
    assert order("forgotten") == ["4", "30", "11", "2"]
    assert order("seed") == ["2", "4", "11", "30"]


def test_places_and_words_of_cells() -> None:
    shape = {"rows": 3, "columns": 2}
    inside = "cellAt({x: SIZE.left + SIZE.cell + 1, y: SIZE.top + 2 * SIZE.cell + 1}, data)"
    assert evaluate("pages/task_grid.js", inside, shape) == {"row": 2, "column": 1}
    assert evaluate("pages/task_grid.js", "cellAt({x: SIZE.left - 1, y: SIZE.top + 1}, data)", shape) is None
    task = {"environment": "E", "seed": "7", "cells": [[0, 3, 4, 1, 0.5], [2, 3, 0, 0, None]]}
    words = [
        evaluate("pages/task_grid.js", "wordsOf(data, column, [1, 2, 5], 'task')".replace("column", str(column)), task)
        for column in range(3)
    ]
    assert words == [
        "task with seed 7, iteration 1: 1 of 4 attempts succeeded (25.0%), mean reward 0.50.",
        "task with seed 7, iteration 2: not played.",
        "task with seed 7, iteration 5: no attempt has ended with a known success.",
    ]
