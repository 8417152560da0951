"""Grids of TextArena's games for one player, drawn from the state of the game, whose text is not parsed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from envs.adapters.boards import textarena_puzzles
from envs.base import GridBoard, Symbol, Tone

_TILES = ".123456789abcdefgh"
"""Characters of 2048 by exponent."""
_TONES: tuple[Tone, ...] = ("tile", "white", "yellow", "orange", "red", "blue", "green")
_SOKOBAN = "# .*$@+"
"""Characters of the theme by the numbers of the game: wall, floor, target, box on target, box, player, on target."""
_GIVEN, _SHADED, _RIGHT, _WRONG = "123456789", "abcdefghi", "ABCDEFGHI", "JKLMNOPQR"


def draw_board(game: Any) -> GridBoard | None:
    """Return the grid of a game after its reset; None for games without a grid or with an unknown kind of state.

    It shows nothing that the game hides from the player, except which digits of a Sudoku are right.
    """
    draw = _BOARDS.get(type(game).__name__)
    if draw is None:
        return None
    try:
        return draw(game)
    except (AttributeError, LookupError, TypeError, ValueError):  # another version of the package: its text is shown
        return None


def _frozen_lake(game: Any) -> GridBoard:
    state = game.state.game_state
    signs = {" ": " ", "H": "O", "G": "G"}
    rows = [[signs[cell] for cell in row] for row in state["grid"]]
    row, column = state["player_pos"]
    rows[row][column] = {" ": "@", "O": "X", "G": "+"}[rows[row][column]]
    return GridBoard(theme="frozen_lake", rows=["".join(line) for line in rows])


def _sokoban(game: Any) -> GridBoard:
    return GridBoard(theme="sokoban", rows=["".join(_SOKOBAN[int(cell)] for cell in row) for row in game.room_state])


def _tiles(game: Any) -> GridBoard:
    values: Sequence[Sequence[int]] = game.state.game_state["board"]
    exponents = [[value.bit_length() - 1 if value else 0 for value in row] for row in values]
    legend = {
        _TILES[exponent]: _tile(exponent) for exponent in sorted({exponent for row in exponents for exponent in row})
    }
    return GridBoard(
        theme="2048", rows=["".join(_TILES[exponent] for exponent in row) for row in exponents], legend=legend
    )


def _tile(exponent: int) -> Symbol:
    if not exponent:
        return Symbol(name="empty")
    value = 2**exponent
    tone = _TONES[min(exponent, len(_TONES)) - 1]
    return Symbol(name=str(value), tone=tone, glyph=str(value) if value < 10_000 else f"{value // 1024}k")


def _mines(game: Any) -> GridBoard:
    legend = {".": Symbol(name="unrevealed", tone="tile"), " ": Symbol(name="no mine around")}
    legend |= {str(count): Symbol(name=f"mines around: {count}", glyph=str(count)) for count in range(1, 9)}
    legend["*"] = Symbol(name="mine", tone="danger", glyph="✱")
    rows = [
        "".join(_revealed(count) if shown else "." for count, shown in zip(counts, visible, strict=True))
        for counts, visible in zip(game.grid, game.revealed, strict=True)
    ]
    used = set("".join(rows))
    return GridBoard(theme="minesweeper", rows=rows, legend={sign: legend[sign] for sign in legend if sign in used})


def _revealed(count: int) -> str:
    return "*" if count < 0 else str(count) if count else " "


def _sudoku(game: Any) -> GridBoard:
    legend: dict[str, Symbol] = {}
    rows = []
    for row, digits in enumerate(game.state.game_state["board"]):
        line = ""
        for column, digit in enumerate(digits):
            sign, symbol = _digit(
                digit,
                given=game.game_board[row][column] != 0,
                right=digit == game.full_grid[row][column],
                shaded=(row // 3 + column // 3) % 2 == 1,
            )
            legend[sign] = symbol
            line += sign
        rows.append(line)
    return GridBoard(theme="sudoku", rows=rows, legend=dict(sorted(legend.items())))


def _digit(digit: int, *, given: bool, right: bool, shaded: bool) -> tuple[str, Symbol]:
    tone: Tone = "tile" if shaded else "floor"
    if not digit:
        return ":" if shaded else ".", Symbol(name="empty", tone=tone)
    if given:
        return (_SHADED if shaded else _GIVEN)[digit - 1], Symbol(name=str(digit), tone=tone, glyph=str(digit))
    if right:
        return _RIGHT[digit - 1], Symbol(name=f"{digit}, right", tone="good", glyph=str(digit))
    return _WRONG[digit - 1], Symbol(name=f"{digit}, wrong", tone="danger", glyph=str(digit))


def _lights(game: Any) -> GridBoard:
    legend = {"O": Symbol(name="light on", tone="yellow"), ".": Symbol(name="light off", tone="tile")}
    rows = ["".join("O" if light else "." for light in row) for row in game.state.game_state["grid"]]
    return GridBoard(theme="lights_out", rows=rows, legend=legend)


_BOARDS: dict[str, Callable[[Any], GridBoard]] = {
    "FrozenLakeEnv": _frozen_lake,
    "SokobanEnv": _sokoban,
    "Game2048Env": _tiles,
    "MinesweeperEnv": _mines,
    "SudokuEnv": _sudoku,
    "LightsOutEnv": _lights,
    "TowerOfHanoiEnv": textarena_puzzles.hanoi,
    "WordleEnv": textarena_puzzles.wordle,
    "MastermindEnv": textarena_puzzles.mastermind,
    "FifteenPuzzleEnv": textarena_puzzles.fifteen,
    "RushHourEnv": textarena_puzzles.rush_hour,
    "PegJumpEnv": textarena_puzzles.pegs,
    "WordSearchEnv": textarena_puzzles.word_search,
}
"""Class of a game → function that draws it."""
