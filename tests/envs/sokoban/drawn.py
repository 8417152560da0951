"""Small rooms drawn by Hypothesis, and the exhaustive forward play that every solver is compared with."""

from __future__ import annotations

from collections import deque

from hypothesis import strategies as st

from envs.sokoban.levels import Level
from envs.sokoban.moves import State, move, steps


@st.composite
def small_levels(draw, most_boxes=3):
    """Any level of 3 × 3 to 4 × 5 inner cells: solvable or not, chambers and boxes on targets included."""
    inner_width, inner_height = draw(st.integers(3, 5)), draw(st.integers(3, 4))
    width = inner_width + 2
    inner = [(row + 1) * width + column + 1 for row in range(inner_height) for column in range(inner_width)]
    walls = draw(st.sets(st.sampled_from(inner), max_size=len(inner) // 3))
    floor = [cell for cell in inner if cell not in walls]
    count = draw(st.integers(1, min(most_boxes, len(floor) - 2)))
    order = draw(st.permutations(floor))
    boxes, player = frozenset(order[:count]), order[count]
    targets = frozenset(draw(st.permutations(floor))[:count])
    return Level(width, inner_height + 2, frozenset(floor), targets, boxes, player)


def start_of(level: Level) -> State:
    return level.player, tuple(sorted(level.boxes))


def brute_force(level: Level, *, count_walks: bool = True) -> dict[State, int]:
    """Every state that can be reached → fewest actions (or pushes) from the start, by plain search forwards."""
    start = start_of(level)
    costs, todo = {start: 0}, deque([start])
    while todo:
        here = todo.popleft()
        for step in steps(level.width):
            after = move(level.floor, here, step)
            cost = costs[here] + (1 if count_walks or after[1] != here[1] else 0)
            if after not in costs or cost < costs[after]:
                costs[after] = cost
                (todo.append if cost > costs[here] else todo.appendleft)(after)
    return costs


def fewest(level: Level, *, count_walks: bool = True) -> int | None:
    """Fewest actions (or pushes) to success; None where all play has been tried in vain."""
    costs = brute_force(level, count_walks=count_walks)
    return min((cost for state, cost in costs.items() if set(state[1]) == level.targets), default=None)


def after_actions(level: Level, state: State, actions: list[str]) -> State:
    """The state these actions lead to."""
    names = dict(zip(("Up", "Down", "Left", "Right"), steps(level.width), strict=True))
    for action in actions:
        state = move(level.floor, state, names[action])
    return state
