"""Plans of single-environment courses: thoughts that a small model can learn to carry out step by step.

They choose strategies at random, good and poor ones, so that there is something left for RL to discover.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from envs.base import ArmsBoard, GridBoard, PageBoard, PageItem, PageSection, TextEnv
from envs.demonstrators import (
    MOVES,
    Cell,
    TurnPlan,
    at,
    best_action,
    describe_push,
    find_cells,
    get_grid,
    legs,
    solution,
)


def plan_push(env: TextEnv, limit: int) -> TurnPlan:
    """Sokoban: state all positions and the next push; act up to the end of one straight run of pushes."""
    board = get_grid(env)
    (player,), boxes, targets = find_cells(board, "@+"), find_cells(board, "$*"), find_cells(board, ".*+")
    leg = next(legs(solution(env)), [])
    facts = f"I am at {at(player)}. Box {' '.join(map(at, boxes))}. Target {' '.join(map(at, targets))}."
    return TurnPlan(facts + describe_push(leg), [step.action for step in leg[:limit]])


_DIRECTIONS = tuple(MOVES)  # each slips into its neighbours in this circle


def _beside(board: GridBoard, cell: Cell, direction: str) -> Cell | None:
    """Return the neighbouring cell; None beyond the edge of the board."""
    row, column = cell[0] + MOVES[direction][0], cell[1] + MOVES[direction][1]
    return (row, column) if 0 <= row < len(board.rows) and 0 <= column < len(board.rows[0]) else None


def risks(board: GridBoard, player: Cell) -> list[int]:
    """Count the holes, 0 to 3, among the possible destinations of each direction on slippery ice."""
    return [sum(board.rows[row][column] == "O" for row, column in _ends(board, player, n)) for n in range(4)]


def _ends(board: GridBoard, player: Cell, direction: int) -> list[Cell]:
    """Return the possible destinations of a direction, the intended cell first."""
    slips = (_DIRECTIONS[direction], _DIRECTIONS[direction - 1], _DIRECTIONS[(direction + 1) % 4])
    return [_beside(board, player, slip) or player for slip in slips]


def careful_direction(board: GridBoard, player: Cell, goal: Cell) -> str:
    """Return the direction with the fewest holes among its three possible cells; ties go to the one nearer to the goal.

    It considers only four cells, and reaches the goal nearly as often as optimal play (46 of 100 lakes against 51).
    """
    holes = risks(board, player)

    def rank(direction: int) -> tuple[int, int, int]:
        distances = [abs(row - goal[0]) + abs(column - goal[1]) for row, column in _ends(board, player, direction)]
        return holes[direction], sum(distances), distances[0]

    return _DIRECTIONS[min(range(4), key=rank)]


def _symbol(board: GridBoard, cell: Cell) -> str:
    return board.rows[cell[0]][cell[1]].replace(" ", "_")


def shortest_direction(player: Cell, goal: Cell) -> str:
    """Return the direction along the longer way to the goal, whatever is there."""
    down, right = goal[0] - player[0], goal[1] - player[1]
    if abs(down) >= abs(right):
        return "Down" if down > 0 else "Up"
    return "Right" if right > 0 else "Left"


LAKE_STRATEGIES = {"Safest": 0.3, "Shortest": 0.1, "Any": 0.6}
"""Strategies on the ice with their probabilities: 46, 34 and 19 of 100 lakes are crossed with just one of them."""

LAKE_PRACTICE = {"Safest": 0.6, "Shortest": 0.25, "Any": 0.15}
"""Probabilities in single states, which teach the strategies: the safest direction is the hardest to find."""


def plan_walk(
    env: TextEnv, limit: int, *, rng: np.random.Generator, strategies: Mapping[str, float] = LAKE_STRATEGIES
) -> TurnPlan:
    """FrozenLake: read the four cells around the player, then follow the direction of a randomly drawn strategy.

    Cells are named by their symbols: a small model learns to copy a symbol ten times faster than a word. The safest
    direction is the one with the fewest holes among its possible destinations.
    """
    board = get_grid(env)
    (player,), goals = find_cells(board, "@+X"), find_cells(board, "G+")
    around = []
    for direction in _DIRECTIONS:
        cell = _beside(board, player, direction)
        around.append(f"{direction} {'edge' if cell is None else _symbol(board, cell)}.")
    directions = {
        "Safest": careful_direction(board, player, goals[0]),
        "Shortest": shortest_direction(player, goals[0]),
        "Any": str(rng.choice(_DIRECTIONS)),
    }
    chosen = str(rng.choice(list(strategies), p=list(strategies.values())))
    facts = f"I am at {at(player)}. Goal {at(goals[0])}. {' '.join(around)}"
    reason = f" of {' '.join(map(str, risks(board, player)))}" if chosen == "Safest" else ""
    return TurnPlan(f"{facts} {chosen}{reason}: {directions[chosen]}.", [directions[chosen]])


def plan_either_arm(env: TextEnv, limit: int, *, rng: np.random.Generator, best: bool = False) -> TurnPlan:
    """Bandit: name both arms and pull a random one, or the `best`: RL has to learn which one pays more."""
    board = env.board()
    assert isinstance(board, ArmsBoard)
    first, second = (arm.name for arm in board.arms)
    taken = (best_action(env) or first) if best else first if rng.random() < 0.5 else second
    return TurnPlan(f"{first} or {second}? I take {taken}.", [taken])


_NUMBER = re.compile(r"\d+")
_TRIES = 6


def _sums(numbers: list[int]) -> list[list[int]]:
    """Return all distinct signed numbers with a positive sum, positive numbers first."""
    sums = []
    for signs in itertools.product((1, -1), repeat=len(numbers)):
        signed = [sign * number for sign, number in zip(signs, numbers, strict=True)]
        if sum(signed) > 0:
            sums.append(sorted(signed, key=lambda number: number < 0))
    return [list(terms) for terms in dict.fromkeys(map(tuple, sums))]  # without duplicates, which equal numbers cause


def _expression(signed: list[int]) -> str:
    return "".join(f" {'+' if number > 0 else '-'} {abs(number)}" for number in signed).removeprefix(" + ")


def _worked_out(signed: list[int], target: int) -> str:
    """Write out the sum step by step, and whether it is the target: "12+30=42-7=35 no."."""
    text, total = str(signed[0]), signed[0]
    for number in signed[1:]:
        total += number
        text += f"{number:+d}={total}"
    return f"{text} {'yes' if total == target else 'no'}."


PATIENCE = 0.45
"""Probability of another attempt after a failed one."""


def plan_expression_search(
    env: TextEnv, limit: int, *, rng: np.random.Generator, patience: float = PATIENCE
) -> TurnPlan:
    """Countdown with additions and subtractions: work out sums in random order until one is the target.

    After each miss, it tries another sum with probability `patience`; otherwise it answers with the last one.
    """
    *numbers, target = _countdown(env)
    tried, signed = [], [*numbers]
    for index in rng.permutation(len(sums := _sums(numbers)))[:_TRIES]:
        signed = sums[index]
        tried.append(_worked_out(signed, target))
        if sum(signed) == target or rng.random() >= patience:
            break
    return TurnPlan(f"{target}? {' '.join(tried)}", [_expression(signed)])


def _countdown(env: TextEnv) -> list[int]:
    """Return the numbers of a Countdown state, followed by its target."""
    target, *numbers = map(int, _NUMBER.findall(env.render()))
    return [*numbers, target]


_BEFORE_RESULTS = "next >"
"""Label before the first result among the possible actions: quoting it leads to the result. No space follows, so that
the result is the same token in thought and page."""

_OPTIONS_AND_PRICE = re.compile(r", (?:colou?r|finish|flavou?r|scent|size|style|price)\b")


DILIGENCE = 0.55
"""Probability of opening the first result instead of any, and of choosing an option instead of buying without it."""


SHOPPING_PRACTICE = 0.9
"""Probabilities in single states, which teach reading: hasty shoppers do not read."""


def plan_shopping(env: TextEnv, limit: int, *, rng: np.random.Generator, diligence: float = DILIGENCE) -> TurnPlan:
    """WebShop: use only what the pages show.

    The plan searches for the desired product in the request's wording, opens the first result, chooses the options that
    the request names, one group after another, and buys. Thoughts quote the pages, so that every word to choose follows
    an earlier occurrence of it, and begin with the strategy: a single choice for RL.

    Each step after the search follows this plan with probability `diligence`; otherwise any result is opened, or bought
    at once. In the generated catalogue, 32 of 100 diligent purchases are perfect (the solver, which knows the
    catalogue: all), fewer after opening any result, and none without options.
    """
    board = env.board()
    assert isinstance(board, PageBoard)
    items: defaultdict[str, list[PageItem]] = defaultdict(list)
    for section in board.sections:
        items[section.layout] += section.items
    request = items["note"][0].text
    diligent = rng.random() < diligence
    if links := [item.action for item in items["list"] if item.action.startswith("click[")]:
        if diligent:
            return TurnPlan(f"First: {_BEFORE_RESULTS}{_clicked(links[0])}.", [links[0]])
        opened = str(rng.choice(links))
        return TurnPlan(f"Any: [{_clicked(opened)}].", [opened])
    buttons = [item.action for item in items["buttons"]]
    if "click[buy now]" in buttons:
        read = []
        for section in (section for section in board.sections if section.layout == "choices"):
            wish, state = _choice(section, request)
            read.append(f"{section.title} {wish} {state}. ")
            if state == "open":
                if not diligent:
                    return TurnPlan("Quick: good enough.", ["click[buy now]"])
                break
        else:
            return TurnPlan(f"Careful: {''.join(read)}All chosen.", ["click[buy now]"])
        return TurnPlan(f"Careful: {''.join(read)}I choose {section.title} {wish}.", [f"click[ {wish}]"])
    if "search[keywords]" not in buttons:
        return TurnPlan("I go back.", ["click[< prev]" if "click[< prev]" in buttons else "click[back to search]"])
    wish = _OPTIONS_AND_PRICE.split(request.removeprefix("I am looking for"))[0]
    return TurnPlan("I search for it.", [f"search[{wish}]"])  # its tokens are the request's, including the space


def _clicked(action: str) -> str:
    """Return the name in "click[name]"."""
    return action.removeprefix("click[").removesuffix("]")


def _choice(section: PageSection, request: str) -> tuple[str, str]:
    """Return the request's wish for a group of options, and its state: "none" (not offered), "open" or "chosen"."""
    named = re.search(rf", {re.escape(section.title)} ([^,]+)", request)
    if named is None:
        return "any", "none"
    offered = next((item for item in section.items if item.text.lower() == named[1].lower()), None)
    return named[1], "none" if offered is None else "chosen" if offered.chosen else "open"


TRUST = 0.5
"""Probability of calling the calculator instead of guessing."""


def plan_calculation(env: TextEnv, limit: int, *, rng: np.random.Generator, trust: float = TRUST) -> TurnPlan:
    """ToolCalculator: with probability `trust`, call the calculator and answer with the result.

    Otherwise guess a number: RL has to learn that calls are worth their turn.
    """
    action = best_action(env) or ""
    if not action.startswith("calculator("):
        return TurnPlan("That is the result.", [action])
    if rng.random() < trust:
        return TurnPlan("I calculate it.", [action])
    return TurnPlan("I guess.", [str(rng.integers(10, 2000))])
