"""Boards of TextArena's puzzles other than maps: stacks, guesses and their marks, tiles, cars, pegs, letters."""

from __future__ import annotations

from typing import Any

from envs.adapters.boards.drawing import EMPTY, OUTSIDE, cars, drawn, labelled, towers
from envs.base import GridBoard, Symbol, Tone

_MARKS: dict[str, tuple[str, Tone]] = {"G": ("right", "green"), "Y": ("elsewhere", "yellow"), "X": ("absent", "tile")}
_FREE = Symbol(name="free", tone="floor")


def hanoi(game: Any) -> GridBoard:
    pegs = game.state.game_state["towers"]
    return towers([pegs[name] for name in sorted(pegs)], game.num_disks)


def wordle(game: Any) -> GridBoard:
    """Draw one row for each allowed guess, but not the secret word."""
    state = game.state.game_state
    rows = [
        [_letter(letter, mark) for letter, mark in zip(word.upper(), marks, strict=True)]
        for word, marks in state["guess_history"]
    ]
    rows += [[EMPTY] * state["word_length"]] * (state["num_guesses"] - len(rows))
    return drawn("wordle", rows)


def _letter(letter: str, mark: str) -> Symbol:
    name, tone = _MARKS[mark]
    return labelled(letter, f"{letter}, {name}", tone)


def mastermind(game: Any) -> GridBoard:
    """Draw the guesses so far, each with its numbers of black and white pegs, but not the code."""
    state = game.state.game_state
    length = state["code_length"]
    rows = [
        [
            *(labelled(digit) for digit in entry["guess"]),
            labelled(f"●{entry['black']}", f"{entry['black']} in the right place", "good"),
            labelled(f"○{entry['white']}", f"{entry['white']} in other places", "white"),
        ]
        for entry in state["history"]
    ]
    return drawn("mastermind", rows or [[EMPTY] * length + [Symbol(name="no guess yet", tone="floor")] * 2])


def fifteen(game: Any) -> GridBoard:
    return drawn("fifteen", [[_FREE if tile is None else labelled(tile) for tile in row] for row in game.board])


def rush_hour(game: Any) -> GridBoard:
    """Draw the cars, and the exit behind the row of X."""
    size, vehicles = game.BOARD_SIZE, game.state.game_state["vehicles"]
    exit_row = vehicles["X"].row
    cells = [[_FREE] * size + [Symbol(name="exit", tone="goal") if row == exit_row else OUTSIDE] for row in range(size)]
    for name, car in cars(vehicles, "X").items():
        for row, column in vehicles[name].cells():
            if row < size and column < size:  # X may have left
                cells[row][column] = car
    return drawn("rush_hour", cells)


def pegs(game: Any) -> GridBoard:
    """Draw the triangle of holes, each with its number; numbers of empty holes are on the floor."""
    holes = game.state.game_state["board"]
    rows: list[list[Symbol]] = []
    hole = 1
    while hole < len(holes):
        width = len(rows) + 1
        numbers = range(hole, hole + width)
        rows.append([labelled(at, f"{'peg' if holes[at] else 'hole'} {at}", _peg(holes[at])) for at in numbers])
        hole += width
    return drawn("pegs", [row + [OUTSIDE] * (len(rows) - len(row)) for row in rows])


def _peg(there: bool) -> Tone:
    return "orange" if there else "floor"


def word_search(game: Any) -> GridBoard:
    """Draw the letters, with the letters of found words marked."""
    highlighted = game.highlighted_positions
    cells = [
        [
            labelled(letter, f"{letter}, found", "good") if (row, column) in highlighted else labelled(letter)
            for column, letter in enumerate(letters)
        ]
        for row, letters in enumerate(game.state.game_state["board"])
    ]
    return drawn("word_search", cells)
