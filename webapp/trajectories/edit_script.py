"""Shortest edit script of two sequences, with a limit on the work.

Source: Myers 1986, "An O(ND) difference algorithm and its variations": on each diagonal of the table of both
sequences, the furthest point that d insertions and deletions reach; texts that have little in common are given up.
"""

from __future__ import annotations

from collections.abc import Sequence

Block = tuple[int, int, int]
"""Position in the first sequence, position in the second one, length."""


class TooDifferent(Exception):
    """The comparison needs more steps than are left."""


class Steps:
    """The steps that comparisons may still take: one for each point and each equal pair that is looked at.

    Attributes:
        left: steps left; those of `outer`, from which they are taken, too.
    """

    def __init__(self, left: int, outer: Steps | None = None) -> None:
        self.left, self.outer = left, outer

    def at_most(self, steps: int) -> Steps:
        """At most so many of these steps, for a part of the work."""
        return Steps(min(steps, self.left), self)

    def take(self, steps: int) -> None:
        """Count steps that were taken. Raises TooDifferent if there were fewer left."""
        self.left -= steps
        if self.outer is not None:
            self.outer.left -= steps
        if self.left < 0:
            raise TooDifferent


def matching_blocks(one: Sequence[int], other: Sequence[int], steps: Steps) -> list[Block]:
    """The equal stretches of both sequences, in order; what lies between them was deleted or inserted.

    Raises TooDifferent when `steps` are used up. Memory grows with the steps.
    """
    start, shorter = 0, min(len(one), len(other))
    while start < shorter and one[start] == other[start]:
        start += 1
    end = 0
    while end < shorter - start and one[-1 - end] == other[-1 - end]:
        end += 1
    steps.take(start + end)
    blocks = [(0, 0, start)]
    blocks += _middle(one[start : len(one) - end], other[start : len(other) - end], start, steps)
    blocks.append((len(one) - end, len(other) - end, end))
    return [block for block in blocks if block[2]]


def _middle(one: Sequence[int], other: Sequence[int], offset: int, steps: Steps) -> list[Block]:
    trace = _forward(one, other, steps)
    blocks: list[Block] = []
    x, y = len(one), len(other)
    for edits in range(len(trace) - 1, -1, -1):
        diagonal = x - y
        if edits == 0:
            begin = 0
        else:
            before = trace[edits - 1]
            down = diagonal == -edits or (
                diagonal != edits and before.get(diagonal - 1, -1) < before.get(diagonal + 1, -1)
            )
            previous = diagonal + 1 if down else diagonal - 1
            begin = before[previous] + (0 if down else 1)
        if x > begin:
            blocks.append((offset + begin, offset + begin - diagonal, x - begin))
        if edits:
            x = before[previous]
            y = x - previous
    return blocks[::-1]


def _forward(one: Sequence[int], other: Sequence[int], steps: Steps) -> list[dict[int, int]]:
    """For each number of edits, the furthest position in `one` on each diagonal, up to the end of both."""
    wide, high = len(one), len(other)
    trace: list[dict[int, int]] = []
    before: dict[int, int] = {1: 0}
    for edits in range(wide + high + 1):
        furthest: dict[int, int] = {}
        for diagonal in range(-edits, edits + 1, 2):
            if diagonal == -edits or (
                diagonal != edits and before.get(diagonal - 1, -1) < before.get(diagonal + 1, -1)
            ):
                x = before[diagonal + 1]
            else:
                x = before[diagonal - 1] + 1
            start, y = x, x - diagonal
            while x < wide and y < high and one[x] == other[y]:
                x, y = x + 1, y + 1
            furthest[diagonal] = x
            steps.take(1 + x - start)
            if x >= wide and y >= high:
                return [*trace, furthest]
        trace.append(furthest)
        before = furthest
    raise AssertionError("deleting the one and inserting the other always reaches the end")
