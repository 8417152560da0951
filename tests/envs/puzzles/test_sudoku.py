"""Sudoku: generated puzzles, rewards, deductions, text and board."""

from __future__ import annotations

import hashlib
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import envs
from envs.puzzles.sudoku import Sudoku
from envs.puzzles.sudoku_grids import (
    MAX_BLANKS,
    SHAPES,
    GridError,
    make_puzzle,
    next_deduction,
    parse_grid,
    solutions,
)
from envs.support.rng import SeededRng, Stream

EASY = "1 2 | 3 4\n3 4 | . 2\n----+----\n2 1 | 4 3\n4 . | 2 ."


def posed(text: str = EASY) -> Sudoku:
    env = Sudoku()
    env.reset(options={"grid": text})
    return env


def grids_by_brute_force(given: tuple[int, ...]) -> list[tuple[int, ...]]:
    """All solutions of a 4×4 grid, by trying every row against the definition of the rules."""
    rows = [row for row in product(range(1, 5), repeat=4) if len(set(row)) == 4]
    fitting = [
        [row for row in rows if all(digit in (0, own) for digit, own in zip(given[at : at + 4], row, strict=True))]
        for at in range(0, 16, 4)
    ]
    found = []
    for grid in product(*fitting):
        columns = all(len(set(column)) == 4 for column in zip(*grid, strict=True))
        boxes = all(
            len({grid[y][x] for y in (top, top + 1) for x in (left, left + 1)}) == 4
            for top in (0, 2)
            for left in (0, 2)
        )
        if columns and boxes:
            found.append(tuple(digit for row in grid for digit in row))
    return found


@given(data=st.data(), size=st.sampled_from([4, 6, 9]), seed=st.integers(0, 2**60))
def test_a_generated_puzzle_has_exactly_one_solution(data, size, seed):
    shape = SHAPES[size]
    blanks = data.draw(st.integers(1, min(MAX_BLANKS[size], 45)))
    puzzle, solution = make_puzzle(SeededRng(seed, Stream.START), shape, blanks)
    assert puzzle.count(0) == blanks
    assert solutions(shape, puzzle) == [solution]
    for kind in shape.members:
        for cells in kind:
            assert {solution[cell] for cell in cells} == set(range(1, size + 1))


@given(seed=st.integers(0, 2**60), emptied=st.sets(st.integers(0, 15), max_size=9))
def test_the_solver_finds_what_brute_force_finds(seed, emptied):
    _, full = make_puzzle(SeededRng(seed, Stream.START), SHAPES[4], 1)
    grid = tuple(0 if cell in emptied else digit for cell, digit in enumerate(full))
    assert sorted(solutions(SHAPES[4], grid, limit=1000)) == sorted(grids_by_brute_force(grid))


@pytest.mark.parametrize("size", SHAPES)
def test_the_largest_number_of_blanks_is_found(size):
    puzzle, solution = make_puzzle(SeededRng(1, Stream.START), SHAPES[size], MAX_BLANKS[size])
    assert puzzle.count(0) == MAX_BLANKS[size]
    assert solutions(SHAPES[size], puzzle) == [solution]


def test_puzzles_of_the_first_seeds_are_pinned():
    texts = [envs.make("Sudoku", {"size": size}).reset(seed=seed)[0] for size in SHAPES for seed in range(20)]
    assert hashlib.sha256("\n\n".join(texts).encode()).hexdigest()[:16] == "8bee8ca90b13e4f1"


@given(seed=st.integers(0, 2**60), size=st.sampled_from([4, 6, 9]), choose=st.integers(0, 100))
def test_any_advised_digit_leads_to_success_and_a_total_reward_of_one(seed, size, choose):
    env = Sudoku(size=size)
    env.reset(seed=seed)
    total, over = 0.0, False
    for left in range(env.settings.empty_cells, 0, -1):
        hint = env.hint()
        assert hint.distance == len(hint.actions) == left
        _, reward, over, truncated, info = env.step(hint.actions[choose % left])
        total += reward
        assert (info["effective"], info["valid"], truncated) == (True, True, False)
    assert over
    assert info["success"]
    assert total == pytest.approx(1)
    assert (env.hint().actions, env.hint().distance) == ([], 0)


def test_rewards_follow_the_number_of_right_digits():
    env = posed()  # blanks: r2c3 is 1, r4c2 is 3, r4c4 is 1
    third, less = pytest.approx(1 / 3), pytest.approx(-1 / 3)
    assert env.step("r2c3=1")[1] == third
    assert env.step("r2c3=1")[1] == less, "it changes nothing"
    assert env.step("r2c3=4")[1] == pytest.approx(-2 / 3), "wrong, and the right digit is gone"
    assert env.step("r2c3=2")[1] == less
    assert env.step("r2c3=1")[1] == third
    assert env.step("r1c1=2")[1:4] == (less, False, False), "a given digit"
    assert env.render().startswith("1 2 | 3 4")
    assert env.step("r4c2=3")[1:3] == (third, False)
    _, reward, terminated, _, info = env.step("R4C4 = 1")
    assert (reward, terminated, info["success"]) == (third, True, True)


@given(seed=st.integers(0, 2**60), moves=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))))
def test_no_sequence_of_actions_pays_more_than_its_right_digits(seed, moves):
    env = Sudoku()
    env.reset(seed=seed)
    total = 0.0
    for row, column, digit in moves:
        _, reward, terminated, _, _ = env.step(f"r{row}c{column}={digit}")
        total += reward
        blanks = [cell for cell, given_digit in enumerate(env.given) if not given_digit]
        right = sum(env.grid[cell] == env.solution[cell] for cell in blanks)
        assert total <= right / len(blanks) + 1e-9
        assert terminated == (right == len(blanks))
        if terminated:
            break


@pytest.mark.parametrize("text", ["r5c1=1", "r1c1=5", "r0c1=1", "r1c1", "1,1=1", "r1c1=1 r1c2=2", "r1c1=12", ""])
def test_a_text_that_names_no_cell_and_digit_is_invalid(text):
    env = posed()
    before = env.render()
    assert env.step(text) == (
        before,
        0.0,
        False,
        False,
        {"success": False, "effective": False, "valid": False, "actual": None},
    )


def test_deductions_come_before_trials():
    shape = SHAPES[4]
    grid, solution = parse_grid(shape, EASY)
    assert next_deduction(shape, grid, solution).reason == "only digit"
    reasons = set()
    for seed in range(60):
        puzzle, solution = make_puzzle(SeededRng(seed, Stream.START), SHAPES[9], 52)
        while (deduction := next_deduction(SHAPES[9], puzzle, solution)) is not None:
            assert deduction.digit == solution[deduction.cell]
            assert puzzle[deduction.cell] == 0
            reasons.add(deduction.reason)
            puzzle = (*puzzle[: deduction.cell], deduction.digit, *puzzle[deduction.cell + 1 :])
    assert reasons == {
        "only digit",
        "only place in the row",
        "only place in the column",
        "only place in the box",
        "trial",
    }


def test_a_wrong_digit_is_among_the_advised_corrections():
    env = posed()
    env.step("r4c4=4")
    assert env.hint().distance == 3
    assert "r4c4=1" in env.hint().actions
    assert env.deduction() is not None


def test_text_and_board_show_given_right_and_wrong_digits():
    env = posed()
    env.step("r2c3=1")
    env.step("r4c4=4")
    assert env.render() == "1 2 | 3 4\n3 4 | 1 2\n----+----\n2 1 | 4 3\n4 . | 2 4"
    board = env.board()
    assert [len(row) for row in board.rows] == [4] * 4
    symbols = [[board.legend[sign] for sign in row] for row in board.rows]
    assert symbols[0][0].glyph == "1"
    assert (symbols[0][0].tone, symbols[0][2].tone) == ("floor", "tile"), "every other box is shaded"
    assert (symbols[1][2].tone, symbols[1][2].name) == ("good", "1, right")
    assert (symbols[3][3].tone, symbols[3][3].name) == ("danger", "4, wrong")
    assert (symbols[3][1].name, symbols[3][1].glyph) == ("empty", None)
    assert set("".join(board.rows)) == set(board.legend)


@pytest.mark.parametrize("size", SHAPES)
def test_the_text_separates_the_boxes(size):
    text, _ = envs.make("Sudoku", {"size": size}).reset(seed=3)
    lines = text.split("\n")
    assert len({len(line) for line in lines}) == 1
    shape = SHAPES[size]
    assert sum(set(line) == {"-", "+"} for line in lines) == size // shape.box_height - 1
    assert lines[0].count("|") == size // shape.box_width - 1
    assert parse_grid(shape, text)[0].count(0) == envs.make("Sudoku", {"size": size}).settings.empty_cells


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"size": 5}, "no boxes for size 5: choose size 4, 6 or 9"),
        ({"blanks": 11}, "at most 10 blanks, or a larger size"),
        ({"size": 9, "blanks": 60}, "at most 54 blanks"),
        ({"blanks": 0}, "blanks"),
        ({"size": 12}, "size"),
    ],
)
def test_impossible_settings_are_refused_with_what_to_choose(wrong, message):
    with pytest.raises(ValidationError, match=message):
        envs.make("Sudoku", wrong)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2 3", "has 16 cells; this text has 3"),
        (EASY.replace(".", "9", 1), "9 is not a digit of a puzzle of size 4"),
        (EASY.replace("1 2", "1 1", 1), "no solution: correct its digits"),
        ("." * 16, "several solutions: give more digits"),
        ("1234341221434321", "no empty cell"),
    ],
)
def test_faulty_puzzles_are_refused_with_the_reason(text, message):
    with pytest.raises(GridError, match=message):
        posed(text)


def test_budgets_leave_room_for_errors():
    for settings_of in ({}, {"size": 6}, {"size": 9}, {"blanks": 1}):
        spec, blanks = envs.spec("Sudoku", settings_of), Sudoku(**settings_of).settings.empty_cells
        assert blanks < spec.max_actions <= 2 * blanks
        assert spec.max_turns * spec.max_actions_per_turn >= spec.max_actions
