"""Boards of TextArena's puzzles, with the real games; those that need word lists with a state of theirs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import envs
from envs.adapters.boards import textarena_puzzles
from envs.base import GridBoard, TextEnv

pytest.importorskip("textarena", reason="textarena is not installed: pip install textarena")


def make(variant: str) -> TextEnv:
    env = envs.make("TextArena", {"id": variant})
    env.reset(seed=3)
    return env


def names(board: object) -> list[list[str]]:
    assert isinstance(board, GridBoard)
    assert board.legend is not None
    return [[board.legend[sign].name for sign in row] for row in board.rows]


def test_disks_move_between_the_towers() -> None:
    env = make("TowerOfHanoi-v0")
    assert [row[0] for row in names(env.board())] == ["disk 1", "disk 2", "disk 3"]
    env.step("[A C]")
    assert names(env.board())[-1] == ["disk 3", "empty", "disk 1"]


def test_guesses_of_mastermind_stand_with_their_pegs() -> None:
    env = make("Mastermind-v0")
    assert names(env.board()) == [["empty"] * 4 + ["no guess yet"] * 2]
    for guess in ("[1 2 3 4]", "[2 3 4 5]"):
        env.step(guess)
    history = env._game.state.game_state["history"]  # type: ignore[attr-defined]
    assert names(env.board()) == [
        [
            *map(str, entry["guess"]),
            f"{entry['black']} in the right place",
            f"{entry['white']} in other places",
        ]
        for entry in history
    ]
    assert len(history) == 2


def test_tiles_slide_into_the_gap() -> None:
    env = make("FifteenPuzzle-v0")
    before = names(env.board())
    assert sorted(tile for row in before for tile in row) == sorted([*map(str, range(1, 16)), "free"])
    row = next(index for index, tiles in enumerate(before) if "free" in tiles)
    env.step("[up]" if row < 3 else "[down]")
    after = names(env.board())
    assert sum(one != other for rows in zip(before, after, strict=True) for one, other in zip(*rows, strict=True)) == 2


def test_cars_stand_where_the_game_has_them_with_the_exit_behind_x() -> None:
    env = make("RushHour-v0")
    found = names(env.board())
    vehicles = env._game.state.game_state["vehicles"]  # type: ignore[attr-defined]
    for name, car in vehicles.items():
        for row, column in car.cells():
            assert found[row][column].startswith(f"car {name}")
    assert [row[-1] for row in found].index("exit") == vehicles["X"].row


def test_pegs_form_a_triangle() -> None:
    env = make("PegJump-v0")
    found = names(env.board())
    assert [len([name for name in row if name != "outside"]) for row in found] == [1, 2, 3, 4, 5]
    assert sum(name.startswith("hole") for row in found for name in row) == 1


def test_letters_of_wordle_have_the_colours_of_their_marks() -> None:
    state = {"guess_history": [("crane", ["G", "X", "Y", "X", "X"])], "word_length": 5, "num_guesses": 6}
    board = textarena_puzzles.wordle(SimpleNamespace(state=SimpleNamespace(game_state=state)))
    found = names(board)
    assert found[0] == ["C, right", "R, absent", "A, elsewhere", "N, absent", "E, absent"]
    assert found[1:] == [["empty"] * 5] * 5


def test_found_words_are_marked() -> None:
    state = SimpleNamespace(game_state={"board": [["C", "A"], ["T", "S"]]})
    board = textarena_puzzles.word_search(SimpleNamespace(state=state, highlighted_positions={(0, 0), (1, 0)}))
    assert names(board) == [["C, found", "A"], ["T, found", "S"]]
