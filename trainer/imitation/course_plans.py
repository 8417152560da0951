"""Plans of the courses that teach one environment: thoughts that a small model can learn to carry out step by step.

They leave the choice of a strategy to chance, good ones and poor ones, so that RL has something to find out.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict

import numpy as np

from envs.base import ArmsBoard, GridBoard, PageBoard, PageItem, TextEnv
from trainer.imitation.demonstrators import MOVES, Cell, TurnPlan, at, cells_of, grid_of

_DIRECTIONS = tuple(MOVES)  # each slips into the one before or after it, in a circle


def _beside(board: GridBoard, cell: Cell, direction: str) -> Cell | None:
    """The neighbouring cell; None beyond the edge of the board."""
    row, column = cell[0] + MOVES[direction][0], cell[1] + MOVES[direction][1]
    return (row, column) if 0 <= row < len(board.rows) and 0 <= column < len(board.rows[0]) else None


def risks(board: GridBoard, player: Cell) -> list[int]:
    """Number of holes, 0 to 3, among the cells that each direction may lead to on slippery ice."""
    return [sum(board.rows[row][column] == "O" for row, column in _ends(board, player, n)) for n in range(4)]


def _ends(board: GridBoard, player: Cell, direction: int) -> list[Cell]:
    """Where a direction may lead, the intended cell first."""
    slips = (_DIRECTIONS[direction], _DIRECTIONS[direction - 1], _DIRECTIONS[(direction + 1) % 4])
    return [_beside(board, player, each) or player for each in slips]


def careful_direction(board: GridBoard, player: Cell, goal: Cell) -> str:
    """The direction with the fewest holes among the three cells it may lead to, then the nearest to the goal.

    It looks at four cells only, and reaches the goal nearly as often as the best play (46 of 100 lakes against 51).
    """
    holes = risks(board, player)

    def rank(direction: int) -> tuple[int, int, int]:
        distances = [abs(row - goal[0]) + abs(column - goal[1]) for row, column in _ends(board, player, direction)]
        return holes[direction], sum(distances), distances[0]

    return _DIRECTIONS[min(range(4), key=rank)]


def _symbol(board: GridBoard, cell: Cell) -> str:
    return board.rows[cell[0]][cell[1]].replace(" ", "_")


def shortest_direction(player: Cell, goal: Cell) -> str:
    """The direction along the longer way to the goal, whatever lies there."""
    down, right = goal[0] - player[0], goal[1] - player[1]
    if abs(down) >= abs(right):
        return "Down" if down > 0 else "Up"
    return "Right" if right > 0 else "Left"


LAKE_STRATEGIES = {"Safest": 0.25, "Shortest": 0.35, "Any": 0.4}
"""Strategies on the ice with the probability of each: 46, 34 and 19 of 100 lakes are crossed by them alone."""


def plan_walk(env: TextEnv, limit: int, *, rng: np.random.Generator, strategy: str = "") -> TurnPlan:
    """FrozenLake: reads the four cells around the player, then goes in the direction of a strategy (default: drawn).

    Cells are named by their symbols: a small model learns to copy a symbol in a tenth of the time that a word takes.
    The safest direction is found by the number of holes that each direction may lead to.
    """
    board = grid_of(env)
    (player,), goals = cells_of(board, "@+X"), cells_of(board, "G+")
    around = []
    for direction in _DIRECTIONS:
        cell = _beside(board, player, direction)
        around.append(f"{direction} {'edge' if cell is None else _symbol(board, cell)}.")
    directions = {
        "Safest": careful_direction(board, player, goals[0]),
        "Shortest": shortest_direction(player, goals[0]),
        "Any": str(rng.choice(_DIRECTIONS)),
    }
    chosen = strategy or str(rng.choice(list(LAKE_STRATEGIES), p=list(LAKE_STRATEGIES.values())))
    facts = f"I am at {at(player)}. Goal {at(goals[0])}. {' '.join(around)}"
    reason = f" of {' '.join(map(str, risks(board, player)))}" if chosen == "Safest" else ""
    return TurnPlan(f"{facts} {chosen}{reason}: {directions[chosen]}.", [directions[chosen]])


def plan_either_arm(env: TextEnv, limit: int, *, rng: np.random.Generator) -> TurnPlan:
    """Bandit: names both arms, and pulls either, chosen by chance: which one pays more is left to RL."""
    board = env.board()
    assert isinstance(board, ArmsBoard)
    one, other = (arm.name for arm in board.arms)
    taken = one if rng.random() < 0.5 else other
    return TurnPlan(f"{one} or {other}? I take {taken}.", [taken])


_NUMBER = re.compile(r"\d+")
_TRIES = 6


def _sums(numbers: list[int]) -> list[list[int]]:
    """All orders of signs in which every partial sum is positive: the signed numbers, positive ones first."""
    found = []
    for signs in itertools.product((1, -1), repeat=len(numbers)):
        signed = [sign * number for sign, number in zip(signs, numbers, strict=True)]
        if sum(signed) > 0:
            found.append(sorted(signed, key=lambda number: number < 0))
    return [list(each) for each in dict.fromkeys(map(tuple, found))]  # equal numbers make equal sums


def _expression(signed: list[int]) -> str:
    return "".join(f" {'+' if number > 0 else '-'} {abs(number)}" for number in signed).removeprefix(" + ")


def _worked_out(signed: list[int], target: int) -> str:
    """The sum step by step, and whether it is the target: "12+30=42-7=35 no."."""
    text, total = str(signed[0]), signed[0]
    for number in signed[1:]:
        total += number
        text += f"{number:+d}={total}"
    return f"{text} {'yes' if total == target else 'no'}."


PATIENCE = 0.45
"""Probability of another try after one that failed."""


def plan_expression_search(
    env: TextEnv, limit: int, *, rng: np.random.Generator, patience: float = PATIENCE
) -> TurnPlan:
    """Countdown with additions and subtractions: works out sums in random order until one is the target.

    After each that is not, it tries another with probability `patience`, else answers with the last.
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
    """The numbers of a Countdown state, then its target."""
    target, *numbers = map(int, _NUMBER.findall(env.render()))
    return [*numbers, target]


_WORD = re.compile(r"[a-z0-9]+")
_OPTIONS_AND_PRICE = re.compile(r", (?:colou?r|flavou?r|scent|size|style|price)\b")
_PRICE = re.compile(r"\d+\.\d+")


DILIGENCE = 0.45
"""Probability of looking for the best result, and of choosing an option, rather than taking any and buying at once."""


def plan_shopping(env: TextEnv, limit: int, *, rng: np.random.Generator, diligence: float = DILIGENCE) -> TurnPlan:
    """WebShop by what the pages show: searches the wished product in the request's words, opens the item whose title
    has most of them, chooses the options that the request names, and buys.

    Each step after the search is done so with probability `diligence`; else any result is opened, or bought at once.
    In the generated catalogue, 36 of 100 diligent purchases are perfect (the solver, which knows the catalogue: all),
    and none without options.
    """
    board = env.board()
    assert isinstance(board, PageBoard)
    items: defaultdict[str, list[PageItem]] = defaultdict(list)
    for section in board.sections:
        items[section.layout] += section.items
    request = items["note"][0].text
    diligent = rng.random() < diligence
    if links := [item for item in items["list"] if item.action.startswith("click[")]:
        if not diligent:
            return TurnPlan("Any will do.", [links[int(rng.integers(len(links)))].action])
        best = max(links, key=lambda item: _fit(item, request))
        return TurnPlan(f"{best.text} fits best.", [best.action])
    buy = [item.action for item in items["buttons"] if item.action == "click[buy now]"]
    for section in board.sections:
        wanted = [item for item in section.items if section.layout == "choices" and _names(request, item.text)]
        if wanted and not any(item.chosen for item in section.items):
            if buy and not diligent:
                return TurnPlan("Good enough.", buy)
            choice = max(wanted, key=lambda item: len(item.text))
            return TurnPlan(f"The request asks for {section.title} {choice.text}.", [choice.action])
    if buy:
        return TurnPlan("Everything is chosen.", buy)
    wish = _OPTIONS_AND_PRICE.split(request.removeprefix("I am looking for "))[0].replace(",", "").lower()
    return TurnPlan("I search for it.", [f"search[{wish}]"])


def _fit(item: PageItem, request: str) -> tuple[int, bool]:
    """Words of the title that the request has, singular or plural, and whether the price is within its limit."""
    wished = set(_WORD.findall(request.lower()))
    title = set(_WORD.findall(item.text.lower()))
    prices = [float(price) for price in (*_PRICE.findall(item.detail)[:1], *_PRICE.findall(request)[-1:])]
    return len({*title, *(f"{word}s" for word in title)} & wished), len(prices) < 2 or prices[0] <= prices[1]


def _names(request: str, text: str) -> bool:
    return re.search(rf"\b{re.escape(text.lower())}\b", request.lower()) is not None
