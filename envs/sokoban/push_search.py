"""A* over pushes, compiled: a state is the boxes and the region that the player can reach. Loads Numba."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from envs.sokoban.box_order import replace_box
from envs.sokoban.grid import Cells
from envs.sokoban.jit import compiled
from envs.sokoban.lower_bounds import FAR, bound

Bytes = NDArray[np.uint8]
Words = NDArray[np.int64]
Places = NDArray[np.int16]

NODES, OPEN, EXPANDED, FOUND, PUSHED = range(5)
"""Indices of the counters: nodes in the pool, entries of the heap, nodes expanded, the solved node, heap insertions."""

MORE, SOLVED, EXHAUSTED, FULL = range(4)
"""Reasons why `expand` returned: limit reached, solved, no open nodes, the pool must grow."""

G, H, PARENT, PUSH, CLOSED, PLAYER, HASH = range(7)
"""Columns of a node: number of pushes; lower bound of the rest; parent; push from the parent, box · 4 + direction;
whether it was expanded; the lowest cell that the player can reach; hash."""


class Facts(NamedTuple):
    """Precomputed arrays of a room with N cells."""

    neighbours: Cells
    live_index: Cells
    targets: Cells
    on_target: Bytes
    sides: NDArray[np.int8]
    distances: NDArray[np.int32]
    weights: Words
    pairs: Bytes
    triples: Bytes
    keys: Words


class Pool(NamedTuple):
    """Nodes of a search, their hash table, the heap of open nodes, and counters."""

    boxes: Places
    nodes: Words
    table: Cells
    heap_keys: Words
    heap_nodes: Cells
    counters: Words


@compiled
def walk(neighbours: Cells, occupied: Places, player: int, mark: Cells, stamp: int, stack: Cells) -> int:
    """Mark every cell that the player can reach with the stamp.

    Returns the lowest cell, which identifies the region.
    """
    mark[player] = stamp
    stack[0] = player
    size, lowest = 1, player
    while size:
        size -= 1
        cell = stack[size]
        lowest = min(lowest, cell)
        for direction in range(4):
            beside = neighbours[cell, direction]
            if beside >= 0 and occupied[beside] < 0 and mark[beside] != stamp:
                mark[beside] = stamp
                stack[size] = beside
                size += 1
    return lowest


@compiled
def freezes(  # noqa: C901 - compiled by Numba as one loop
    neighbours: Cells,
    live_index: Cells,
    on_target: Bytes,
    boxes: Places,
    occupied: Places,
    frozen: Bytes,
) -> bool:
    """Return True if a box off its target can never move again; same test as `Deadlocks.frozen`.

    `occupied`: index in `boxes` of the box on each cell, or −1; `frozen`: (K,) scratch array.
    """
    frozen[:] = 1
    changed = True
    while changed:
        changed = False
        for index in range(boxes.size):
            if not frozen[index]:
                continue
            for axis in range(0, 4, 2):
                behind, after = neighbours[boxes[index], axis], neighbours[boxes[index], axis + 1]
                if behind < 0 or after < 0:
                    continue
                if occupied[behind] >= 0 and frozen[occupied[behind]]:
                    continue
                if occupied[after] >= 0 and frozen[occupied[after]]:
                    continue
                if live_index[behind] < 0 and live_index[after] < 0:
                    continue
                frozen[index] = 0
                changed = True
                break
    for index in range(boxes.size):  # noqa: SIM110 - Numba compiles no generator
        if frozen[index] and not on_target[boxes[index]]:
            return True
    return False


@compiled
def state_hash(boxes: Places, player: int, keys: Words) -> int:
    """Return the Zobrist hash of a state; keys: (2, N)."""
    mixed = int(keys[1, player])
    for box in boxes:
        mixed ^= keys[0, box]
    return mixed


@compiled
def blocked(boxes: Places, player: int, moved: int, facts: Facts) -> bool:
    """Return True if two or three boxes including the moved one could not reach targets even without all others."""
    live_index, weights, count = facts.live_index, facts.weights, facts.neighbours.shape[0]
    for index in range(boxes.size):
        if index == moved:
            continue
        first, second = min(index, moved), max(index, moved)
        low, high = live_index[boxes[first]], live_index[boxes[second]]
        if facts.pairs.size and not facts.pairs[(weights[low, 0] + weights[high, 1]) * count + player]:
            return True
        if facts.triples.size:
            for third in range(index + 1, boxes.size):
                if third == moved:
                    continue
                lowest, two, three = low, high, live_index[boxes[third]]
                if three < two:
                    two, three = three, two
                rank = weights[lowest, 0] + weights[two, 1] + weights[three, 2]
                if not facts.triples[rank * count + player]:
                    return True
    return False


@compiled
def heap_push(pool: Pool, key: int, node: int) -> None:
    """Push a node onto the heap."""
    keys, nodes = pool.heap_keys, pool.heap_nodes
    at = pool.counters[OPEN]
    pool.counters[OPEN] += 1
    while at:
        above = (at - 1) >> 1
        if keys[above] <= key:
            break
        keys[at], nodes[at] = keys[above], nodes[above]
        at = above
    keys[at], nodes[at] = key, node


@compiled
def heap_pop(pool: Pool) -> int:
    """Pop the node with the lowest key from the heap."""
    keys, nodes = pool.heap_keys, pool.heap_nodes
    top = int(nodes[0])
    pool.counters[OPEN] -= 1
    size = pool.counters[OPEN]
    key, node, at = keys[size], nodes[size], 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and keys[below + 1] < keys[below]:
            below += 1
        if keys[below] >= key:
            break
        keys[at], nodes[at] = keys[below], nodes[below]
        at = below
    keys[at], nodes[at] = key, node
    return top


@compiled
def heap_key(g: int, h: int, weight: int, other_box: int, pushed: int) -> int:
    """Return the heap key: g + weight · h, then smaller h, then a push of the same box, then the newest node."""
    return ((g + weight * h) << 46) | (min(h, 0xFFF) << 34) | (other_box << 33) | (0x1FFFFFFFF - pushed)


@compiled
def find(pool: Pool, boxes: Places, player: int, hashed: int) -> int:
    """Return the index of the state in the hash table, or of the entry where it belongs."""
    mask = pool.table.size - 1
    at = hashed & mask
    while pool.table[at] >= 0:
        node = pool.table[at]
        if pool.nodes[node, HASH] == hashed and pool.nodes[node, PLAYER] == player:
            same = True
            for index in range(boxes.size):
                if pool.boxes[node, index] != boxes[index]:
                    same = False
                    break
            if same:
                return at
        at = (at + 1) & mask
    return at


@compiled
def rehash(pool: Pool) -> None:
    """Insert all nodes into the empty hash table."""
    mask = pool.table.size - 1
    for node in range(pool.counters[NODES]):
        at = pool.nodes[node, HASH] & mask
        while pool.table[at] >= 0:
            at = (at + 1) & mask
        pool.table[at] = node


@compiled
def reorder(pool: Pool, weight: int) -> None:
    """Rebuild the heap with another weight."""
    left = pool.heap_nodes[: pool.counters[OPEN]].copy()
    pool.counters[OPEN] = 0
    for node in left:
        if not pool.nodes[node, CLOSED]:
            pool.counters[PUSHED] += 1
            g, h = pool.nodes[node, G], pool.nodes[node, H]
            heap_push(pool, heap_key(g, h, weight, 0, pool.counters[PUSHED]), node)


@compiled
def start(pool: Pool, facts: Facts, boxes: Places, player: int, weight: int) -> None:
    """Make the first node: these boxes, the player in the region identified by its lowest cell."""
    hashed = state_hash(boxes, player, facts.keys)
    pool.boxes[0] = boxes
    h = bound(boxes, player, facts.targets, facts.sides, facts.distances)
    pool.nodes[0] = np.array([0, h, -1, -1, 0, player, hashed])
    pool.table[find(pool, boxes, player, hashed)] = 0
    pool.counters[NODES] = 1
    if h < FAR:
        heap_push(pool, heap_key(0, h, weight, 0, 0), 0)


@compiled
def number_boxes(boxes: Places, occupied: Places) -> None:
    """Write the index of each box to its cell."""
    for index in range(boxes.size):
        occupied[boxes[index]] = index


@compiled
def expand(pool: Pool, facts: Facts, limit: int, weight: int) -> int:  # noqa: C901 - compiled by Numba as one loop
    """Expand nodes until the limit, a solution, an empty heap or a full pool. Returns the reason."""
    neighbours, live_index = facts.neighbours, facts.live_index
    count, size = neighbours.shape[0], pool.boxes.shape[1]
    counters, nodes = pool.counters, pool.nodes
    occupied = np.full(count, -1, np.int16)
    reach, other, stack = np.zeros(count, np.int32), np.zeros(count, np.int32), np.empty(count, np.int32)
    boxes, frozen = np.empty(size, np.int16), np.empty(size, np.uint8)
    stamp = 0
    while counters[EXPANDED] < limit:
        if counters[OPEN] == 0:
            return EXHAUSTED
        if counters[NODES] + 4 * size > nodes.shape[0] or counters[OPEN] + 4 * size > pool.heap_keys.size:
            return FULL
        node = heap_pop(pool)
        if nodes[node, CLOSED]:
            continue
        if nodes[node, H] == 0:
            counters[FOUND] = node
            return SOLVED
        nodes[node, CLOSED] = 1
        counters[EXPANDED] += 1
        g = nodes[node, G] + 1
        came = nodes[node, PUSH]
        last = neighbours[came >> 2, came & 3] if came >= 0 else -1
        number_boxes(pool.boxes[node], occupied)
        stamp += 1
        walk(neighbours, occupied, nodes[node, PLAYER], reach, stamp, stack)
        reached = stamp
        for pushed in range(size):
            box = pool.boxes[node, pushed]
            for direction in range(4):
                to, stand = neighbours[box, direction], neighbours[box, direction ^ 1]
                if to < 0 or stand < 0 or occupied[to] >= 0 or reach[stand] != reached or live_index[to] < 0:
                    continue
                boxes[:] = pool.boxes[node]
                index = replace_box(boxes, pushed, to)
                occupied[box] = -1
                number_boxes(boxes, occupied)
                stamp += 1
                lost = freezes(neighbours, live_index, facts.on_target, boxes, occupied, frozen)
                lost = lost or blocked(boxes, box, index, facts)
                player = -1 if lost else walk(neighbours, occupied, box, other, stamp, stack)
                occupied[to] = -1
                number_boxes(pool.boxes[node], occupied)
                if lost:
                    continue
                hashed = state_hash(boxes, player, facts.keys)
                entry = find(pool, boxes, player, hashed)
                child = pool.table[entry]
                if child >= 0:
                    if nodes[child, G] <= g:
                        continue
                    h = nodes[child, H]
                else:
                    h = bound(boxes, player, facts.targets, facts.sides, facts.distances)
                    child = counters[NODES]
                    counters[NODES] += 1
                    pool.table[entry] = child
                    pool.boxes[child] = boxes
                    nodes[child, H], nodes[child, PLAYER], nodes[child, HASH] = h, player, hashed
                nodes[child, G], nodes[child, PARENT], nodes[child, PUSH] = g, node, box * 4 + direction
                nodes[child, CLOSED] = h >= FAR
                if h < FAR:
                    counters[PUSHED] += 1
                    heap_push(pool, heap_key(g, h, weight, box != last, counters[PUSHED]), child)
        for index in range(size):
            occupied[pool.boxes[node, index]] = -1
    return MORE
