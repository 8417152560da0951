"""Arrays of boxes in ascending order, for compiled searches. Loads Numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from envs.sokoban.jit import compiled

Numbers = NDArray[np.integer[Any]]


@compiled
def replace_box(boxes: Numbers, index: int, to: int) -> int:
    """Replace the box at this index, and keep the order. Returns the index of the new entry."""
    while index > 0 and boxes[index - 1] > to:
        boxes[index] = boxes[index - 1]
        index -= 1
    while index < boxes.size - 1 and boxes[index + 1] < to:
        boxes[index] = boxes[index + 1]
        index += 1
    boxes[index] = to
    return index
