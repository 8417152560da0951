"""Grids of reasoning-gym's questions and answers, with the real package."""

from __future__ import annotations

import re
from typing import Any

import pytest

import envs
from envs.adapters.boards.question_grids import _ANSWERS, _QUESTIONS, answer_grid, question_grid
from envs.base import GridBoard, TextBoard, TextEnv

pytest.importorskip("reasoning_gym", reason="reasoning-gym is not installed: pip install reasoning-gym")


def make(generator: str, **arguments: Any) -> TextEnv:
    return envs.make("ReasoningGym", {"id": generator, "arguments": arguments})


def grid(env: TextEnv) -> GridBoard:
    board = env.board()
    assert isinstance(board, TextBoard)
    assert board.grid is not None
    assert board.grid.legend is None or set("".join(board.grid.rows)) <= set(board.grid.legend)
    return board.grid


def names(board: GridBoard) -> list[list[str]]:
    assert board.legend is not None
    return [[board.legend[sign].name for sign in row] for row in board.rows]


@pytest.mark.parametrize("generator", sorted(_QUESTIONS))
def test_questions_about_grids_have_one_beside_their_words(generator: str) -> None:
    env = make(generator)
    for seed in (1, 2):
        question, _ = env.reset(seed=seed)
        board = env.board()
        assert isinstance(board, TextBoard)
        assert board.text == question
        assert len({len(row) for row in grid(env).rows}) == 1


@pytest.mark.parametrize("generator", sorted(_ANSWERS))
def test_the_right_answer_is_drawn_without_a_mark(generator: str) -> None:
    env = make(generator)
    env.reset(seed=3)
    hint = env.hint()
    assert hint
    assert env.step(hint.actions[0])[4]["success"]
    assert not any("wrong" in name for row in names(grid(env)) for name in row)


def test_other_questions_have_none() -> None:
    env = make("chain_sum")
    env.reset(seed=1)
    board = env.board()
    assert isinstance(board, TextBoard)
    assert board.grid is None


def test_a_sudoku_is_drawn_as_the_question_writes_it() -> None:
    env = make("mini_sudoku")
    question, _ = env.reset(seed=4)
    written = [line.split() for line in question.splitlines() if re.fullmatch(r"[1-4_]( [1-4_]){3}", line)]
    assert names(grid(env)) == [[cell.replace("_", "empty") for cell in row] for row in written]


def test_wrong_cells_of_an_answer_are_marked() -> None:
    env = make("mini_sudoku")
    env.reset(seed=4)
    hint = env.hint()
    assert hint
    right = hint.actions[0]
    wrong = "5" + right[1:]
    env.step(wrong)
    found = [name for row in names(grid(env)) for name in row]
    assert found == ["5, wrong", *right.split()[1:]]


@pytest.mark.parametrize("answer", ["I do not know", "", "1 2\n3", "[[1, 2], [3]]", "7", "[1, 2]", "[" * 100_000])
def test_an_answer_that_is_no_grid_leaves_that_of_the_question(answer: str) -> None:
    env = make("mini_sudoku")
    env.reset(seed=4)
    before = grid(env)
    env.step(answer or " ")
    assert grid(env) == before


def test_constraints_stand_between_the_cells() -> None:
    entry = {
        "metadata": {
            "puzzle": [[1, 0], [0, 2]],
            "constraints": [(0, 0, 0, 1, "<"), (0, 1, 1, 1, ">"), (0, 0, 1, 0, "<")],
        }
    }
    board = question_grid("futoshiki", entry)
    assert board is not None
    assert [[name[-1] for name in row] for row in names(board)] == [["1", "<", "y"], ["∧", "s", "∨"], ["y", "s", "2"]]


def test_sums_stand_at_the_edge() -> None:
    entry = {"metadata": {"puzzle": [[0, 0]], "row_sums": [3], "col_sums": [1, 1]}}
    board = question_grid("kakurasu", entry)
    assert board is not None
    assert names(board)[0] == ["empty", "empty", "sum of the row: 3"]
    assert names(board)[1][:2] == ["sum of the column: 1"] * 2


@pytest.mark.parametrize("metadata", [{}, {"puzzle": None}, {"puzzle": [[1], [2, 3]]}, {"puzzle": [["1"] * 41] * 41}])
def test_metadata_of_another_version_or_of_a_huge_grid_give_no_grid(metadata: dict[str, Any]) -> None:
    entry = {"question": "?", "metadata": metadata}
    assert question_grid("sudoku", entry) is None
    assert answer_grid("sudoku", entry, "1 2\n3 4") is None
