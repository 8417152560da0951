"""Rules of 2048 on boards of any size, and an expectimax search for the next move.

A board is a tuple of rows of exponents: 0 for an empty cell, k for the tile 2**k.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

Row = tuple[int, ...]
Tiles = tuple[Row, ...]
ACTIONS = ("Left", "Down", "Right", "Up")
_CACHED_ROWS = 200_000
_EMPTY, _MERGEABLE, _UNSORTED = 2.7, 0.7, 0.47
"""Weights of a row's rating: empty cells, equal neighbours, and inversions of the order of tiles."""
SEARCHED_CELLS = 2
"""Empty cells in which the search puts a new tile: as good as all of them in play, and several times as fast."""
_WON, _WON_NEXT, _LOST = 1e6, 5e5, -1e6
"""Ratings of the target, of the target by the next move, and of a board where nothing moves."""
_CERTAIN = 1e-9


@lru_cache(maxsize=_CACHED_ROWS)
def slide_row(row: Row) -> tuple[Row, tuple[int, ...]]:
    """Return the row after a move to the left, and the exponents of the merged tiles; each merges only once."""
    moved: list[int] = []
    merged: list[int] = []
    free = False
    for tile in filter(None, row):
        if free and moved[-1] == tile:
            moved[-1] += 1
            merged.append(moved[-1])
            free = False
        else:
            moved.append(tile)
            free = True
    return (*moved, *[0] * (len(row) - len(moved))), tuple(merged)


def transposed(tiles: Tiles) -> Tiles:
    """Return the board with rows and columns exchanged."""
    return tuple(zip(*tiles, strict=True))


def mirrored(tiles: Tiles) -> Tiles:
    """Return the board with left and right exchanged."""
    return tuple(row[::-1] for row in tiles)


def slide(tiles: Tiles, action: str) -> tuple[Tiles, tuple[int, ...]]:
    """Return the board after a move, without a new tile, and the exponents of the merged tiles."""
    vertical, backwards = action in ("Up", "Down"), action in ("Right", "Down")
    turned = transposed(tiles) if vertical else tiles
    turned = mirrored(turned) if backwards else turned
    slid = [slide_row(row) for row in turned]
    after: Tiles = tuple(row for row, _ in slid)
    after = mirrored(after) if backwards else after
    return (transposed(after) if vertical else after), tuple(tile for _, merged in slid for tile in merged)


def moves(tiles: Tiles) -> list[str]:
    """Return the actions that change the board."""
    return [action for action in ACTIONS if slide(tiles, action)[0] != tiles]


def empty_cells(tiles: Tiles) -> list[tuple[int, int]]:
    """Return row and column of each empty cell, row by row."""
    return [(y, x) for y, row in enumerate(tiles) for x, tile in enumerate(row) if not tile]


def with_tile(tiles: Tiles, cell: tuple[int, int], tile: int) -> Tiles:
    """Return the board with a tile in a cell."""
    y, x = cell
    row = tiles[y]
    return (*tiles[:y], (*row[:x], tile, *row[x + 1 :]), *tiles[y + 1 :])


def advice(tiles: Tiles, target: int) -> list[str]:
    """Return the best actions by a search of two moves with a new 2 in an empty cell between them; empty when stuck.

    Ratings are heuristic: they value empty cells, equal neighbours and sorted rows.

    Args:
        target: exponent that wins; a move that makes it is the best.
    """
    rated = {action: _rate_move(slide(tiles, action), target) for action in moves(tiles)}
    best = max(rated.values(), default=0.0)
    return [action for action, rating in rated.items() if rating >= best - _CERTAIN]


def _rate_move(moved: tuple[Tiles, tuple[int, ...]], target: int) -> float:
    """Return the expected rating after a move, a new tile and the best answer to it."""
    tiles, merged = moved
    if target in merged:
        return _WON
    cells = empty_cells(tiles)
    if len(cells) > SEARCHED_CELLS:
        cells = [cells[number * len(cells) // SEARCHED_CELLS] for number in range(SEARCHED_CELLS)]
    return sum(_best_answer(with_tile(tiles, cell, 1), target) for cell in cells) / len(cells)


def _best_answer(tiles: Tiles, target: int) -> float:
    best = _LOST
    for action in ACTIONS:
        after, merged = slide(tiles, action)
        if after != tiles:
            best = max(best, _WON_NEXT if target in merged else rating(after))
    return best


def rating(tiles: Tiles) -> float:
    """Return the heuristic value of a board: the higher, the easier it is to continue."""
    return sum(map(_rate_row, tiles)) + sum(map(_rate_row, transposed(tiles)))


@lru_cache(maxsize=_CACHED_ROWS)
def _rate_row(row: Row) -> float:
    pairs = list(pairwise(row))
    falls = sum(max(0, left - right) ** 2 for left, right in pairs)
    rises = sum(max(0, right - left) ** 2 for left, right in pairs)
    equal = sum(left == right != 0 for left, right in pairs)
    return _EMPTY * row.count(0) + _MERGEABLE * equal - _UNSORTED * min(falls, rises)
