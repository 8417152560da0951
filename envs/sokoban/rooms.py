"""The making of Sokoban rooms: corridors and chambers are dug, then solved positions are played backwards.

The same seed and settings make the same room everywhere; pinned hashes in the tests hold that. No rules live here.

Lengths count actions of an optimal solution, and rooms are accepted by exhaustive reverse play, wherever most rooms of
that size and number of boxes can be played through (10×10 with four boxes can). In larger ones boxes are pulled at
random and A* finds the way back: lengths then count the actions of its plan, which has the fewest pushes but may have
more actions than an optimal one, and lie in the range without being spread over it as those of smaller rooms.
"""

from __future__ import annotations

import math

from envs.sokoban.exact import layers
from envs.sokoban.grid import MAX_TABLE, Grid
from envs.sokoban.levels import Level
from envs.sokoban.moves import ACTIONS, State, move, steps, walks
from envs.support.rng import SeededRng

_ATTEMPTS = 2000
_TRIES_PER_LENGTH = 20
_STATES = 40_000
_TYPICAL_SHARE = 0.65
"""Share of the inner cells that is floor in a middling room."""
_SEARCH_BUDGET = 3_000
"""States A* expands for one position pulled at random. Never seconds: a room must not depend on the machine."""
_ACTIONS_PER_PULL = 8
_LONGEST_PULL = 4
_LENGTH_SCALE = 2.5
"""Lengths are drawn in proportion to d·exp(−d / scale): median 4, 90th percentile 8 between 1 and 10."""


class NoRoomError(ValueError):
    """No room of this kind was found. The message says what to change."""


def make_room(draws: SeededRng, size: int, boxes: int, shortest: int, longest: int) -> Level:
    """A room whose solution takes between `shortest` and `longest` actions; no box is on a target yet.

    What is counted is told at the top of this module. Raises NoRoomError where no such room was found.
    """
    shortest = max(shortest, boxes)  # every box needs a push of its own
    lengths = range(shortest, longest + 1)
    weights = [length * math.exp(-(length - shortest) / _LENGTH_SCALE) for length in lengths]
    wanted = shortest
    for attempt in range(_ATTEMPTS):
        if attempt % _TRIES_PER_LENGTH == 0:
            wanted = draws.weighted(lengths, weights)
        floor = _dig(draws, size, boxes)
        if _exhaustible(size, boxes):
            targets = frozenset(draws.sample(sorted(floor), boxes))
            position = _play_back(draws, size, floor, targets, wanted)
        else:
            targets = _together(draws, size, floor, boxes)
            position = _pull(draws, size, floor, targets, shortest, longest, wanted)
        if position is not None:
            player, cells = position
            return Level(size, size, floor, targets, frozenset(cells), player)
    raise NoRoomError(
        f"no {size}×{size} room with {boxes} box(es) and an optimal solution of {shortest} to {longest} actions was "
        f"found in {_ATTEMPTS} tries: widen the range of lengths, or take a larger room"
    )


def _dig(draws: SeededRng, size: int, boxes: int) -> frozenset[int]:
    """Floor cells: a walk that mostly goes straight and now and then widens, until a drawn share is dug."""
    inner = size - 2
    fewest = max(4, boxes * 3 + 1)
    wanted = min(inner * inner, max(fewest, round(inner * inner * (0.4 + 0.5 * draws.uniform()))))
    row, column = 1 + draws.below(inner), 1 + draws.below(inner)
    floor = {row * size + column}
    directions = ((-1, 0), (1, 0), (0, -1), (0, 1))
    heading = draws.choice(directions)
    while len(floor) < wanted:
        if draws.uniform() < 0.4:
            heading = draws.choice(directions)
        to_row, to_column = row + heading[0], column + heading[1]
        if not (1 <= to_row <= inner and 1 <= to_column <= inner):
            heading = draws.choice(directions)
            continue
        row, column = to_row, to_column
        floor.add(row * size + column)
        if draws.uniform() < 0.3:
            side_row, side_column = row + heading[1], column + heading[0]
            if 1 <= side_row <= inner and 1 <= side_column <= inner:
                floor.add(side_row * size + side_column)
    return frozenset(floor)


def _play_back(
    draws: SeededRng, size: int, floor: frozenset[int], targets: frozenset[int], wanted: int
) -> State | None:
    """A position `wanted` actions from success with every box off its target; None where there is none."""
    if _states(len(floor), len(targets)) <= _STATES:
        starts = _layer(size, floor, targets, wanted)
    else:
        starts = _layer_of_table(size, floor, targets, wanted)
    starts = [state for state in starts if targets.isdisjoint(state[1])]
    return draws.choice(starts) if starts else None


def _exhaustible(size: int, boxes: int) -> bool:
    """Whether most rooms of that kind can be played through."""
    return _states(round(_TYPICAL_SHARE * (size - 2) ** 2), boxes) <= MAX_TABLE


def _states(cells: int, boxes: int) -> int:
    """Places of the boxes and the player on that many cells."""
    return cells * math.comb(cells, boxes)


def _layer(size: int, floor: frozenset[int], targets: frozenset[int], wanted: int) -> list[State]:
    """All states `wanted` actions from success."""
    for length, layer in enumerate(layers(size, floor, targets, _STATES)):
        if length == wanted:
            return layer
    return []


def _layer_of_table(size: int, floor: frozenset[int], targets: frozenset[int], wanted: int) -> list[State]:
    """The same for rooms of more states; none where they are too many, so that another room is dug."""
    from envs.sokoban.exhaustive import ExhaustiveTable

    room = Grid(size, floor, targets)
    if room.positions(len(targets)) > MAX_TABLE:
        return []
    table = ExhaustiveTable(room, len(targets), stop=wanted)
    return table.last_layer() if table.depth == wanted else []


def _together(draws: SeededRng, size: int, floor: frozenset[int], boxes: int) -> frozenset[int]:
    """Targets near each other: those of a large room drawn anywhere would be too far apart for all but long plans."""
    first = draws.choice(sorted(floor))
    near = sorted(walks(size, floor, (first, ())).items(), key=lambda item: (item[1], item[0]))
    return frozenset([first, *draws.sample([cell for cell, _ in near[1 : 1 + 3 * boxes]], boxes - 1)])


def _pull(
    draws: SeededRng,
    size: int,
    floor: frozenset[int],
    targets: frozenset[int],
    shortest: int,
    longest: int,
    wanted: int,
) -> State | None:
    """A position on A*'s plan for boxes pulled about at random: the one whose rest is nearest to `wanted` actions."""
    from envs.sokoban.astar_advisor import AStarAdvisor, AStarSearch

    room = Grid(size, floor, targets)
    state = _pulled(draws, room, longest)
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
    for length in sorted(starts, key=lambda length: abs(length - wanted)):
        again = searcher.find(starts[length], _SEARCH_BUDGET)
        if again.fewest and shortest <= len(AStarAdvisor(searcher, _SEARCH_BUDGET).plan(starts[length])) <= longest:
            return starts[length]
    return None


def _pulled(draws: SeededRng, room: Grid, longest: int) -> State | None:
    """A solved position played backwards, one box after the other pulled a few cells; None where one stays on target.

    The longer a plan may be, the more rounds may be played.
    """
    boxes = sorted(room.targets)
    player = draws.choice(sorted(room.floor - room.targets))
    rounds = 1 + draws.below(max(1, longest // (_ACTIONS_PER_PULL * len(boxes))))
    for turn in range(rounds * len(boxes)):
        box = boxes[turn % len(boxes)]
        ways = [step for step in steps(room.width) if _can_pull(room, (player, tuple(boxes)), box, step)]
        if not ways:
            continue
        step = draws.choice(ways)
        for _ in range(1 + draws.below(_LONGEST_PULL)):
            if not _can_pull(room, (player, tuple(boxes)), box, step):
                break
            boxes[turn % len(boxes)] = box = box + step
            player = box + step
    if not room.targets.isdisjoint(boxes):
        return None
    return player, tuple(sorted(boxes))


def _can_pull(room: Grid, state: State, box: int, step: int) -> bool:
    """Whether the player can walk to the box's side and step back with it."""
    to, beyond = box + step, box + 2 * step
    return (
        {to, beyond} <= room.floor and not {to, beyond} & set(state[1]) and to in walks(room.width, room.floor, state)
    )
