"""Grids for reasoning-gym's questions, from its generators' metadata, and for answers that are grids."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from envs.adapters.boards.drawing import EMPTY, OUTSIDE, cars, drawn, labelled, towers
from envs.base import GridBoard, Symbol, Tone

Entry = Mapping[str, Any]
"""A question as its generator makes it: `question`, `answer` and `metadata`."""
Tokens = Sequence[Sequence[str]]
Style = Callable[[str, int, int], Symbol]
"""Symbol of a token at a row and a column."""

MAX_SIDE = 40
_BLANKS = ("_", "")
_SIGNS = "<>∧∨"
"""Constraints between the cells of a Futoshiki."""
_TOKEN = re.compile(r"-?\d+(\.\d+)?|[Q_]")


def question_grid(generator: str, entry: Entry) -> GridBoard | None:
    """Return the question's grid; None for other questions, and for questions of an unknown version."""
    draw = _QUESTIONS.get(generator)
    return _attempted(lambda: None if draw is None else draw(entry))


def answer_grid(generator: str, entry: Entry, answer: str) -> GridBoard | None:
    """Return the answer as a grid, with wrong cells marked if a solution is known; None if it is not a grid."""
    style, solution = _ANSWERS.get(generator, (None, ""))
    if style is None:
        return None
    tokens = _parse_rows(answer)
    if tokens is None:
        return None

    def draw() -> GridBoard:
        right = _texts(entry["metadata"][solution]) if solution else None
        cells = [[style(token, y, x) for x, token in enumerate(row)] for y, row in enumerate(tokens)]
        if right is not None and list(map(len, right)) == list(map(len, tokens)):
            for y, row in enumerate(tokens):
                for x, token in enumerate(row):
                    if token != right[y][x]:
                        cells[y][x] = labelled(token, f"{token}, wrong", "danger")
        return drawn(generator, cells)

    return _attempted(draw)


def _attempted(draw: Callable[[], GridBoard | None]) -> GridBoard | None:
    try:
        board = draw()
    except (AttributeError, LookupError, TypeError, ValueError):  # another version of the package: its text is shown
        return None
    if board is None or max(len(board.rows), len(board.rows[0])) > MAX_SIDE:
        return None
    return board


def _parse_rows(answer: str) -> Tokens | None:
    """Return tokens of an answer that is a list of lists, or lines of numbers and queens without words."""
    try:
        read = json.loads(answer)
        lines = _texts(read) if isinstance(read, list) and all(isinstance(row, list) for row in read) else []
    except (ValueError, RecursionError):  # not JSON, or brackets nested too deeply
        parts = [[part for part in line.split() if part not in _SIGNS] for line in answer.splitlines()]
        lines = [line for line in parts if all(_TOKEN.fullmatch(part) for part in line)]
    rows = [row for row in lines if row]
    return rows if len({len(row) for row in rows}) == 1 and len(rows) * len(rows[0]) > 1 else None


def _texts(rows: Sequence[Sequence[Any]]) -> list[list[str]]:
    return [[str(cell) for cell in row] for row in rows]


def _styled(theme: str, rows: Sequence[Sequence[Any]], style: Style) -> GridBoard:
    return drawn(theme, [[style(token, y, x) for x, token in enumerate(row)] for y, row in enumerate(_texts(rows))])


def _number(token: str, row: int, column: int) -> Symbol:
    return EMPTY if token in _BLANKS else labelled(token)


def _digit_in_box(height: int, width: int) -> Style:
    """Return the style of a Sudoku's digits, with every other box of that size shaded."""

    def style(token: str, row: int, column: int) -> Symbol:
        tone: Tone = "tile" if (row // height + column // width) % 2 else "floor"
        return Symbol(name="empty", tone=tone) if token in ("0", *_BLANKS) else labelled(token, tone=tone)

    return style


def _by_token(symbols: Mapping[str, Symbol]) -> Style:
    def style(token: str, row: int, column: int) -> Symbol:
        return symbols.get(token) or labelled(token)

    return style


_COLOURS: tuple[Tone, ...] = ("floor", "blue", "red", "green", "yellow", "tile", "bad", "orange", "goal", "danger")
"""Tones of ARC's ten colours, as near as there are."""
_ARC = _by_token({str(number): labelled(number, f"colour {number}", tone) for number, tone in enumerate(_COLOURS)})
_LIFE = _by_token({"0": Symbol(name="dead", tone="floor"), "1": Symbol(name="alive", tone="blue")})
_ISLANDS = _by_token({"0": Symbol(name="water", tone="blue"), "1": Symbol(name="land", tone="green")})
_ORANGES = _by_token(
    {
        "0": Symbol(name="no orange", tone="tile"),
        "1": Symbol(name="fresh orange", tone="orange"),
        "2": labelled("✱", "rotten orange", "danger"),
    }
)
_WAY = _by_token(
    {
        "*": Symbol(name="start", tone="player"),
        "#": Symbol(name="destination", tone="goal"),
        "O": Symbol(name="open", tone="floor"),
        "X": Symbol(name="blocked", tone="wall"),
    }
)
_GO = _by_token({".": EMPTY, "X": labelled("●", "black stone"), "O": labelled("○", "white stone")})


def _queen(token: str, row: int, column: int) -> Symbol:
    tone: Tone = "tile" if (row + column) % 2 else "floor"
    return labelled("♛", "queen", tone) if token == "Q" else Symbol(name="empty square", tone=tone)


def _matrix(key: str, theme: str, style: Style) -> Callable[[Entry], GridBoard]:
    """Return a function that draws a matrix in the metadata."""
    return lambda entry: _styled(theme, entry["metadata"][key], style)


def _bits(entry: Entry) -> GridBoard:
    """Read the zeros and ones from the question, because the metadata of the Game of Life lack them."""
    lines = [line for line in str(entry["question"]).splitlines() if re.fullmatch(r"[01\[\],. ]+", line)]
    return _styled("game_of_life", [re.findall("[01]", line) for line in lines], _LIFE)


def _arc_row(entry: Entry) -> GridBoard:
    return _styled("arc_1d", [entry["metadata"]["test_example"]["input"]], _ARC)


def _maze(entry: Entry) -> GridBoard:
    facts = entry["metadata"]
    symbols = {
        facts["start"]: Symbol(name="start", tone="player"),
        facts["goal"]: Symbol(name="goal", tone="goal"),
        facts["wall"]: Symbol(name="wall", tone="wall"),
        facts["path"]: Symbol(name="passage", tone="floor"),
    }
    return _styled("maze", facts["grid"], lambda token, row, column: symbols[token])


def _sokoban(entry: Entry) -> GridBoard:
    table = str.maketrans({"*": "@", "%": "+", "@": "$", "X": ".", "$": "*", "+": "#", "-": " "})
    lines = [line.replace(" ", "") for line in entry["metadata"]["gamestr"].splitlines()]
    return GridBoard(theme="sokoban", rows=[line.translate(table) for line in lines if line])


def _rush_hour(entry: Entry) -> GridBoard:
    lines = str(entry["question"]).split("Board:")[1].split()
    signs = {"x": Symbol(name="wall", tone="wall"), ".": Symbol(name="free", tone="floor")}
    signs |= cars(set("".join(lines)) - set(signs), "A")
    return drawn("rush_hour", [[signs[sign] for sign in line] for line in lines])


def _knights(entry: Entry) -> GridBoard:
    pieces = entry["metadata"]["pieces"]
    signs = {"w": labelled("♘", "white knight"), "B": labelled("♞", "black knight"), None: EMPTY}
    columns, rows = sorted({square[0] for square in pieces}), sorted({square[1:] for square in pieces}, reverse=True)
    return drawn(
        "knight_swap",
        [[signs[pieces[column + row]] if column + row in pieces else OUTSIDE for column in columns] for row in rows],
    )


def _hanoi(entry: Entry) -> GridBoard:
    facts = entry["metadata"]
    disks, pegs, start = facts["num_disks"], facts["num_pegs"], facts["start_peg"]
    return towers([list(range(disks, 0, -1)) if peg == start else [] for peg in range(1, pegs + 1)], disks)


def _cube(entry: Entry) -> GridBoard:
    """Draw the unfolded cube: three columns of text are a sticker."""
    tones: dict[str, Tone] = {"W": "white", "Y": "yellow", "O": "orange", "R": "red", "G": "green", "B": "blue"}
    lines = [line for line in str(entry["question"]).splitlines() if re.fullmatch(r"[ WYORGB]+", line) and line.strip()]
    width = max(len(line) for line in lines) // 3
    rows = [[line.ljust(3 * width)[3 * at : 3 * at + 3].strip() for at in range(width)] for line in lines]
    size = int(entry["metadata"]["cube_size"])
    cells = [[labelled(sticker, tone=tones[sticker]) if sticker else OUTSIDE for sticker in row] for row in rows]
    return drawn("rubiks_cube", [row[: 4 * size] for row in cells])


def _futoshiki(entry: Entry) -> GridBoard:
    """Draw digits, with the signs of the constraints between them."""
    facts = entry["metadata"]
    puzzle = facts["puzzle"]
    side = 2 * len(puzzle) - 1
    between = Symbol(name="between cells", tone="floor")
    cells = [[between for _ in range(side)] for _ in range(side)]
    for y, row in enumerate(puzzle):
        for x, digit in enumerate(row):
            cells[2 * y][2 * x] = labelled(digit) if digit else EMPTY
    for y, x, other_y, other_x, sign in (_constraint(constraint) for constraint in facts["constraints"]):
        upright = {"<": "∧", ">": "∨"}[sign] if y != other_y else sign
        cells[y + other_y][x + other_x] = labelled(upright, f"constraint {upright}", "floor")
    return drawn("futoshiki", cells)


def _constraint(entry: Sequence[Any]) -> tuple[int, int, int, int, str]:
    y, x, other_y, other_x, sign = entry
    return int(y), int(x), int(other_y), int(other_x), str(sign)


def _kakurasu(entry: Entry) -> GridBoard:
    """Draw the empty grid, with the sums of rows on its right and the sums of columns below."""
    facts = entry["metadata"]
    cells = [
        [EMPTY for _ in row] + [labelled(total, f"sum of the row: {total}", "goal")]
        for row, total in zip(facts["puzzle"], facts["row_sums"], strict=True)
    ]
    sums = [labelled(total, f"sum of the column: {total}", "goal") for total in facts["col_sums"]]
    return drawn("kakurasu", [*cells, [*sums, OUTSIDE]])


def _survo(entry: Entry) -> GridBoard:
    rows = entry["metadata"]["puzzle"]
    last, end = len(rows) - 1, len(rows[0]) - 1

    def style(token: str, row: int, column: int) -> Symbol:
        if row == last or column == end:
            return labelled(token, f"sum: {token}", "goal")
        return EMPTY if token == "0" else labelled(token)

    return _styled("survo", rows, style)


_SUDOKU, _MINI_SUDOKU = _digit_in_box(3, 3), _digit_in_box(2, 2)
_QUESTIONS: dict[str, Callable[[Entry], GridBoard]] = {
    "arc_1d": _arc_row,
    "arc_agi": _matrix("input", "arc", _ARC),
    "binary_matrix": _matrix("matrix", "matrix", _number),
    "futoshiki": _futoshiki,
    "game_of_life": _bits,
    "game_of_life_halting": _bits,
    "kakurasu": _kakurasu,
    "knight_swap": _knights,
    "largest_island": _matrix("grid", "islands", _ISLANDS),
    "manipulate_matrix": _matrix("matrix", "matrix", _number),
    "maze": _maze,
    "mini_sudoku": _matrix("puzzle", "sudoku", _MINI_SUDOKU),
    "n_queens": _matrix("puzzle", "n_queens", _queen),
    "pool_matrix": _matrix("matrix", "matrix", _number),
    "rearc": _matrix("input", "arc", _ARC),
    "rotate_matrix": _matrix("matrix", "matrix", _number),
    "rotten_oranges": _matrix("matrix", "oranges", _ORANGES),
    "rubiks_cube": _cube,
    "rush_hour": _rush_hour,
    "shortest_path": _matrix("matrix", "shortest_path", _WAY),
    "sokoban": _sokoban,
    "spiral_matrix": _matrix("matrix", "matrix", _number),
    "sudoku": _matrix("puzzle", "sudoku", _SUDOKU),
    "survo": _survo,
    "tower_of_hanoi": _hanoi,
    "tsumego": _matrix("board", "go", _GO),
}
_ANSWERS: dict[str, tuple[Style, str]] = {
    "arc_1d": (_ARC, ""),
    "arc_agi": (_ARC, "output"),
    "binary_matrix": (_number, "solution"),
    "futoshiki": (_number, "solution"),
    "game_of_life": (_LIFE, ""),
    "kakurasu": (_number, ""),
    "manipulate_matrix": (_number, "solution"),
    "mini_sudoku": (_MINI_SUDOKU, "solution"),
    "n_queens": (_queen, ""),
    "pool_matrix": (_number, ""),
    "rearc": (_ARC, "output"),
    "rotate_matrix": (_number, "solution"),
    "sudoku": (_SUDOKU, "solution"),
    "survo": (_number, ""),
}
"""Style of an answer, and the entry of the metadata that is the only right answer, if there is one."""
