"""Generator of Sokoban rooms: digs corridors and chambers, then plays solved positions backwards.

The same seed and settings make the same room on every machine; tests pin hashes.

Lengths count actions of an optimal solution, and rooms are accepted by exhaustive reverse play, if most rooms of that
size and number of boxes can be enumerated (10×10 with four boxes can). In larger rooms boxes are pulled at random and
A* solves the position: lengths then count the actions of its plan, which has the fewest pushes but may have more
actions than an optimal solution, and are in the range without the distribution of smaller rooms.
"""

from __future__ import annotations

import math

from envs.sokoban.exact import layers
from envs.sokoban.grid import MAX_TABLE, Grid
from envs.sokoban.levels import Level
from envs.sokoban.moves import ACTIONS, State, move, steps, walks
from envs.support.rng import SeededRng

_MAX_ATTEMPTS = 2000
_ATTEMPTS_PER_LENGTH = 20
_STATES = 40_000
_TYPICAL_SHARE = 0.65
"""Share of floor among the inner cells of a typical room."""
_SEARCH_BUDGET = 3_000
"""Limit of expanded states per position; a time limit would make rooms depend on the machine."""
_ACTIONS_PER_PULL = 8
_MAX_PULL = 4
_LENGTH_SCALE = 2.5
"""Lengths are drawn in proportion to d·exp(−d / scale): median 4, 90th percentile 8 between 1 and 10."""
_LENGTH_SPREAD = 0.28
"""With a typical length, lengths are normal about it with this coefficient of variation: median 6, 90th percentile 8
about 6 between 2 and 10, as in the rooms of RAGEN's generator, which plays ten moves back from a solved room and keeps
the position that is hardest by a heuristic score."""


class NoRoomError(ValueError):
    """No room with these settings was found. The message says what to change."""


def length_weights(lengths: range, typical: int | None = None) -> list[float]:
    """Return the relative frequency of each length of an optimal solution.

    Args:
        lengths: possible lengths, ascending.
        typical: most frequent length, moved into the range; None: short lengths prevail.
    """
    if typical is None:
        return [length * math.exp(-(length - lengths[0]) / _LENGTH_SCALE) for length in lengths]
    centre = min(max(typical, lengths[0]), lengths[-1])
    return [math.exp(-(((length - centre) / (_LENGTH_SPREAD * centre)) ** 2) / 2) for length in lengths]


def make_room(rng: SeededRng, size: int, boxes: int, shortest: int, longest: int, typical: int | None = None) -> Level:
    """Make a room with a solution of `shortest` to `longest` actions (see the module's docstring) and no box on a
    target; `typical` as in `length_weights`. Raises NoRoomError if none was found.
    """
    shortest = max(shortest, boxes)  # every box needs at least one push
    lengths = range(shortest, longest + 1)
    weights = length_weights(lengths, typical)
    length = shortest
    for attempt in range(_MAX_ATTEMPTS):
        if attempt % _ATTEMPTS_PER_LENGTH == 0:
            length = rng.weighted(lengths, weights)
        floor = _dig(rng, size, boxes)
        if _exhaustible(size, boxes):
            targets = frozenset(rng.sample(sorted(floor), boxes))
            position = _play_back(rng, size, floor, targets, length)
        else:
            targets = _together(rng, size, floor, boxes)
            position = _pull(rng, size, floor, targets, shortest, longest, length)
        if position is not None:
            player, cells = position
            return Level(size, size, floor, targets, frozenset(cells), player)
    raise NoRoomError(
        f"no {size}×{size} room with {boxes} box(es) and an optimal solution of {shortest} to {longest} actions was "
        f"found in {_MAX_ATTEMPTS} tries: widen the range of lengths, or take a larger room"
    )


def _dig(rng: SeededRng, size: int, boxes: int) -> frozenset[int]:
    """Return floor cells: a random walk that mostly goes straight and sometimes widens, until a random share is dug."""
    inner = size - 2
    fewest = max(4, boxes * 3 + 1)
    area = min(inner * inner, max(fewest, round(inner * inner * (0.4 + 0.5 * rng.uniform()))))
    row, column = 1 + rng.below(inner), 1 + rng.below(inner)
    floor = {row * size + column}
    directions = ((-1, 0), (1, 0), (0, -1), (0, 1))
    heading = rng.choice(directions)
    while len(floor) < area:
        if rng.uniform() < 0.4:
            heading = rng.choice(directions)
        to_row, to_column = row + heading[0], column + heading[1]
        if not (1 <= to_row <= inner and 1 <= to_column <= inner):
            heading = rng.choice(directions)
            continue
        row, column = to_row, to_column
        floor.add(row * size + column)
        if rng.uniform() < 0.3:
            side_row, side_column = row + heading[1], column + heading[0]
            if 1 <= side_row <= inner and 1 <= side_column <= inner:
                floor.add(side_row * size + side_column)
    return frozenset(floor)


def _play_back(
    rng: SeededRng, size: int, floor: frozenset[int], targets: frozenset[int], distance: int
) -> State | None:
    """Return a position `distance` actions from success with no box on a target; None if there is none."""
    if _states(len(floor), len(targets)) <= _STATES:
        starts = _layer(size, floor, targets, distance)
    else:
        starts = _layer_of_table(size, floor, targets, distance)
    starts = [state for state in starts if targets.isdisjoint(state[1])]
    return rng.choice(starts) if starts else None


def _exhaustible(size: int, boxes: int) -> bool:
    """Return True if most rooms of this size can be enumerated."""
    return _states(round(_TYPICAL_SHARE * (size - 2) ** 2), boxes) <= MAX_TABLE


def _states(cells: int, boxes: int) -> int:
    """Return the number of states of boxes and player on this many cells."""
    return cells * math.comb(cells, boxes)


def _layer(size: int, floor: frozenset[int], targets: frozenset[int], distance: int) -> list[State]:
    """Return all states at distance `distance`."""
    for length, layer in enumerate(layers(size, floor, targets, _STATES)):
        if length == distance:
            return layer
    return []


def _layer_of_table(size: int, floor: frozenset[int], targets: frozenset[int], distance: int) -> list[State]:
    """Return the same for rooms of more states; empty if they are too many."""
    from envs.sokoban.exhaustive import ExhaustiveTable

    room = Grid(size, floor, targets)
    if room.positions(len(targets)) > MAX_TABLE:
        return []
    table = ExhaustiveTable(room, len(targets), stop=distance)
    return table.last_layer() if table.depth == distance else []


def _together(rng: SeededRng, size: int, floor: frozenset[int], boxes: int) -> frozenset[int]:
    """Return targets near each other, since independent targets in a large room would need long plans."""
    first = rng.choice(sorted(floor))
    near = sorted(walks(size, floor, (first, ())).items(), key=lambda item: (item[1], item[0]))
    return frozenset([first, *rng.sample([cell for cell, _ in near[1 : 1 + 3 * boxes]], boxes - 1)])


def _pull(
    rng: SeededRng,
    size: int,
    floor: frozenset[int],
    targets: frozenset[int],
    shortest: int,
    longest: int,
    distance: int,
) -> State | None:
    """Return a position on A*'s plan for randomly pulled boxes, with a remaining plan of nearly `distance` actions."""
    from envs.sokoban.astar_advisor import AStarAdvisor, AStarSearch

    room = Grid(size, floor, targets)
    state = _pulled(rng, room, longest)
    if state is None:
        return None
    searcher = AStarSearch(room, pattern_states=0)
    if not searcher.find(state, _SEARCH_BUDGET).fewest:
        return None
    plan = AStarAdvisor(searcher, _SEARCH_BUDGET).plan(state)
    starts = {}
    for done, action in enumerate(plan):
        if shortest <= len(plan) - done <= longest and targets.isdisjoint(state[1]):
            starts[len(plan) - done] = state
        state = move(floor, state, steps(size)[ACTIONS.index(action)])
    for length in sorted(starts, key=lambda length: abs(length - distance)):
        again = searcher.find(starts[length], _SEARCH_BUDGET)
        if again.fewest and shortest <= len(AStarAdvisor(searcher, _SEARCH_BUDGET).plan(starts[length])) <= longest:
            return starts[length]
    return None


def _pulled(rng: SeededRng, room: Grid, longest: int) -> State | None:
    """Return a solved position after pulling each box a few cells in turn; None if a box remains on a target.

    Longer plans allow more rounds.
    """
    boxes = sorted(room.targets)
    player = rng.choice(sorted(room.floor - room.targets))
    rounds = 1 + rng.below(max(1, longest // (_ACTIONS_PER_PULL * len(boxes))))
    for turn in range(rounds * len(boxes)):
        box = boxes[turn % len(boxes)]
        directions = [step for step in steps(room.width) if _can_pull(room, (player, tuple(boxes)), box, step)]
        if not directions:
            continue
        step = rng.choice(directions)
        for _ in range(1 + rng.below(_MAX_PULL)):
            if not _can_pull(room, (player, tuple(boxes)), box, step):
                break
            boxes[turn % len(boxes)] = box = box + step
            player = box + step
    if not room.targets.isdisjoint(boxes):
        return None
    return player, tuple(sorted(boxes))


def _can_pull(room: Grid, state: State, box: int, step: int) -> bool:
    """Return True if the player can reach the box's side and step back with it."""
    to, beyond = box + step, box + 2 * step
    return (
        {to, beyond} <= room.floor and not {to, beyond} & set(state[1]) and to in walks(room.width, room.floor, state)
    )
