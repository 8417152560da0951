"""Quarter turns of cubes with two or three stickers along an edge, as permutations of the stickers.

A state is a string with the colour of each sticker: faces in the order U L F R B D, each row by row as in the net
(U above F, then L F R B in a row, D below F). The permutations follow from the geometry: a turn rotates the
stickers of the outer layer of its face by a right angle, clockwise as seen from outside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import itemgetter

from envs.support.rng import SeededRng

Vector = tuple[int, int, int]
FACES = "ULFRBD"
COLOURS = "WOGRBY"
"""Colour of each face of the solved cube."""
PLACES = {"U": (0, 1), "L": (1, 0), "F": (1, 1), "R": (1, 2), "B": (1, 3), "D": (2, 1)}
"""Row and column of each face in the net, in faces."""
_AXES: dict[str, tuple[Vector, Vector, Vector]] = {
    "U": ((0, 1, 0), (0, 0, 1), (1, 0, 0)),
    "L": ((-1, 0, 0), (0, -1, 0), (0, 0, 1)),
    "F": ((0, 0, 1), (0, -1, 0), (1, 0, 0)),
    "R": ((1, 0, 0), (0, -1, 0), (0, 0, -1)),
    "B": ((0, 0, -1), (0, -1, 0), (-1, 0, 0)),
    "D": ((0, -1, 0), (0, 0, -1), (1, 0, 0)),
}
"""Of each face: the outward direction, and where its rows and its columns lead."""
TURNED_FACES = {2: "URF", 3: "URFDLB"}
"""Faces that are turned. On the small cube a turn of a face equals one of the opposite face and of the whole cube, so
three faces suffice, and one corner never moves."""


def inverse(turn: str) -> str:
    """Return the turn that undoes a turn."""
    return turn.removesuffix("'") if turn.endswith("'") else f"{turn}'"


def _dot(first: Vector, second: Vector) -> int:
    return sum(a * b for a, b in zip(first, second, strict=True))


def _turned(point: Vector, axis: Vector) -> Vector:
    """Rotate a point by a right angle clockwise about an axis, seen from its tip."""
    (x, y, z), (a, b, c), along = point, axis, _dot(point, axis)
    return along * a + y * c - z * b, along * b + z * a - x * c, along * c + x * b - y * a


@dataclass(frozen=True)
class Cube:
    """A cube with `size` stickers along each edge (2 or 3)."""

    size: int

    @cached_property
    def solved(self) -> str:
        """Return the state in which each face has one colour."""
        return "".join(colour * self.size**2 for colour in COLOURS)

    @cached_property
    def turns(self) -> tuple[str, ...]:
        """Return the names of the turns in standard notation: U is clockwise, U' counter-clockwise."""
        return tuple(name for face in TURNED_FACES[self.size] for name in (face, f"{face}'"))

    @cached_property
    def _permutations(self) -> dict[str, Callable[[str], tuple[str, ...]]]:
        """Return turn → the function that reads, from a state, the sticker of each place after the turn."""
        places = [self._centre(face, row, column) for face in FACES for row in self._range for column in self._range]
        index = {sticker: number for number, sticker in enumerate(places)}
        permutations: dict[str, Callable[[str], tuple[str, ...]]] = {}
        for face in TURNED_FACES[self.size]:
            axis = _AXES[face][0]
            forwards = list(range(len(places)))
            for number, sticker in enumerate(places):
                if _dot(sticker, axis) >= self.size - 1:
                    forwards[index[_turned(sticker, axis)]] = number
            backwards = sorted(range(len(places)), key=forwards.__getitem__)
            permutations[face], permutations[f"{face}'"] = itemgetter(*forwards), itemgetter(*backwards)
        return permutations

    @property
    def _range(self) -> range:
        return range(self.size)

    def _centre(self, face: str, row: int, column: int) -> Vector:
        """Return the middle of a sticker. The cube's faces are `size` away from its centre, and stickers 2 apart."""
        out, down, right = _AXES[face]
        y, x = 2 * row - self.size + 1, 2 * column - self.size + 1
        first, second, third = (self.size * o + y * d + x * r for o, d, r in zip(out, down, right, strict=True))
        return first, second, third

    def turn(self, state: str, name: str) -> str:
        """Return the state after a turn."""
        return "".join(self._permutations[name](state))

    def scramble(self, rng: SeededRng, count: int) -> tuple[str, ...]:
        """Return random turns that leave the cube unsolved. None undoes its predecessor or occurs thrice in a row."""
        while True:
            turns: list[str] = []
            state = self.solved
            while len(turns) < count:
                barred = {inverse(turn) for turn in turns[-1:]}
                if len(set(turns[-2:])) < len(turns[-2:]):
                    barred.add(turns[-1])
                turns.append(rng.choice([name for name in self.turns if name not in barred]))
                state = self.turn(state, turns[-1])
            if state != self.solved:
                return tuple(turns)

    def net(self, state: str, outside: str) -> list[str]:
        """Return the rows of the unfolded cube, with the sign `outside` where there is no sticker."""
        size = self.size
        rows = [[outside] * 4 * size for _ in range(3 * size)]
        for number, face in enumerate(FACES):
            top, left = (size * start for start in PLACES[face])
            for cell in range(size * size):
                rows[top + cell // size][left + cell % size] = state[number * size * size + cell]
        return ["".join(row) for row in rows]


@lru_cache
def get_cube(size: int) -> Cube:
    """Return the cube of a size, shared because its turns are computed once."""
    return Cube(size)
