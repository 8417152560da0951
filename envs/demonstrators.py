"""Demonstrators: thoughts and actions for states of every environment with a solver, and random mistakes.

For some environments thoughts describe the board; for all others they verbalise the solver's hint.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import envs
from envs.base import ArmsBoard, GridBoard, PageBoard, TextEnv
from envs.countdown import Countdown
from envs.puzzles.game_2048 import Game2048
from envs.puzzles.sudoku import Sudoku

Cell = tuple[int, int]


@dataclass(frozen=True)
class TurnPlan:
    """Thought and actions of one turn."""

    thought: str
    actions: list[str]


Planner = Callable[[TextEnv, int], TurnPlan]
"""Plans at most this many actions for the current state; none if the solver has no advice."""

MistakeRule = Callable[[TextEnv, np.random.Generator], str]
"""Chooses a random action that the environment can read and that is rarely the best."""


@dataclass(frozen=True)
class Demonstrator:
    """Optimal actions and mistakes in an environment."""

    plan: Planner
    mistake: MistakeRule


def best_action(env: TextEnv) -> str | None:
    """Return the solver's first choice; None without advice."""
    hint = env.hint()
    return hint.actions[0] if hint is not None and hint.actions else None


# -- thoughts and actions ------------------------------------------------------------------------------------------


def find_cells(board: GridBoard, symbols: str) -> list[Cell]:
    """Return the cells, row and column from 0, that show one of these symbols."""
    return [(r, c) for r, row in enumerate(board.rows) for c, symbol in enumerate(row) if symbol in symbols]


def at(cell: Cell) -> str:
    """Return a cell as named in thoughts: row,column from 1."""
    return f"{cell[0] + 1},{cell[1] + 1}"


def get_grid(env: TextEnv) -> GridBoard:
    """Return the board of an environment that has a grid."""
    board = env.board()
    assert isinstance(board, GridBoard)
    return board


MOVES: dict[str, Cell] = {"Left": (0, -1), "Down": (1, 0), "Right": (0, 1), "Up": (-1, 0)}


@dataclass(frozen=True)
class Step:
    """One action of a Sokoban solution."""

    action: str
    start: Cell
    end: Cell
    box: Cell | None
    """New cell of a pushed box; None if the player walks."""


def solution(env: TextEnv) -> Iterator[Step]:
    """Yield the steps of the solver's solution of a Sokoban room; ends early if the solver has no advice."""
    ahead = copy.deepcopy(env)
    while (hint := ahead.hint()) is not None and hint.actions:
        grid_before = get_grid(ahead)
        ahead.step(hint.actions[0])
        after = get_grid(ahead)
        moved = set(find_cells(after, "$*")) - set(find_cells(grid_before, "$*"))
        yield Step(
            hint.actions[0], find_cells(grid_before, "@+")[0], find_cells(after, "@+")[0], next(iter(moved), None)
        )


def legs(steps: Iterable[Step]) -> Iterator[list[Step]]:
    """Split a solution into legs: a walk, then the straight run of pushes that it leads to."""
    leg: list[Step] = []
    for step in steps:
        if leg and leg[-1].box and (step.box is None or step.action != leg[-1].action):
            yield leg
            leg = []
        leg.append(step)
    if leg:
        yield leg


def describe_push(leg: list[Step]) -> str:
    """Describe a leg's pushes: their direction, and the box's first and last cells; empty without a push."""
    pushes = [step for step in leg if step.box]
    if not pushes or (end := pushes[-1].box) is None:
        return ""
    return f" Push {pushes[0].action} from {at(pushes[0].start)} to {at(end)}."


def plan_sokoban(env: TextEnv, limit: int) -> TurnPlan:
    """State all positions and the offset of a single box's target, then each run of pushes and its way cell by cell.

    A small model cannot find a way without writing it down: every cell that it names is one step from the last.
    """
    board = get_grid(env)
    (player,), boxes, targets = find_cells(board, "@+"), find_cells(board, "$*"), find_cells(board, ".*+")
    offset = f": {_offset(boxes[0], targets[0])}" if len(boxes) == len(targets) == 1 else ""
    thought = f"I am at {at(player)}. Box {' '.join(map(at, boxes))}. Target {' '.join(map(at, targets))}{offset}."
    steps = list(itertools.islice(solution(env), limit))
    for leg in legs(steps):
        thought += describe_push(leg) + "".join(f" {step.action} to {at(step.end)}." for step in leg)
    return TurnPlan(thought, [step.action for step in steps])


def plan_frozen_lake(env: TextEnv, limit: int) -> TurnPlan:
    """State all positions, then the way: cell by cell if the ice does not slip, otherwise the safest direction."""
    board, hint = get_grid(env), env.hint()
    (player,), goals, holes = find_cells(board, "@+X"), find_cells(board, "G+"), find_cells(board, "O")
    best = hint.actions[0] if hint and hint.actions else "Down"
    facts = f"I am at {at(player)}. Goal {at(goals[0])}."
    danger = f" Hole {' '.join(map(at, holes))}." if holes else ""
    if hint is not None and hint.distance is not None:
        actions, way, (row, column) = plan_from_hint(env, limit).actions, "", player
        for action in actions:
            row, column = row + MOVES[action][0], column + MOVES[action][1]
            way += f" {action} to {at((row, column))}."
        facts = f"I am at {at(player)}. Goal {at(goals[0])}: {_offset(player, goals[0])}."
        return TurnPlan(facts + danger + way, actions)
    step = MOVES[best]
    repeat = 2 if limit > 1 and (player[0] + 2 * step[0], player[1] + 2 * step[1]) not in holes else 1
    return TurnPlan(f"{facts}{danger} Go {best}.", [best] * repeat)


def _offset(start: Cell, end: Cell) -> str:
    """Return the offset from one cell to another in steps: `Down 1, Left 2`."""
    down, right = end[0] - start[0], end[1] - start[1]
    parts = [("Down", down), ("Up", -down), ("Right", right), ("Left", -right)]
    return ", ".join(f"{direction} {steps}" for direction, steps in parts if steps > 0) or "here"


def plan_bandit(env: TextEnv, limit: int) -> TurnPlan:
    """Name both arms, and pull the arm that pays more on average."""
    board, hint = env.board(), env.hint()
    assert isinstance(board, ArmsBoard)
    assert hint is not None
    best = hint.actions[0]
    other = next(arm.name for arm in board.arms if arm.name != best)
    return TurnPlan(f"{best} may pay much, {other} pays little. I take {best}.", [best])


def plan_countdown(env: TextEnv, limit: int) -> TurnPlan:
    """Repeat the task, and work out equations until one solves it; for more than two numbers, only that equation."""
    assert isinstance(env, Countdown)
    problem, best = env.problem, best_action(env)
    task = env.render().replace("\n", " ")
    if best is None:
        return TurnPlan(f"{task}. Nothing fits.", [])
    if len(problem.numbers) != 2:
        return TurnPlan(f"{task}. Each number once: {best}.", [best])
    tried: list[str] = []
    for equation, value in _equations(*problem.numbers):
        solved = value == problem.target
        tried.append(f"{equation} = {value}, {'yes' if solved else 'no'}.")
        if solved:
            return TurnPlan(f"{task}. {' '.join(tried)}", [equation])
    return TurnPlan(f"{task}. {' '.join(tried)}", [best])


def _equations(first: int, second: int) -> Iterator[tuple[str, int]]:
    """Yield the equations of two numbers whose values are natural numbers, each with its value: + - * /."""
    large, small = max(first, second), min(first, second)
    yield f"{first} + {second}", first + second
    yield f"{large} - {small}", large - small
    yield f"{first} * {second}", first * second
    if large % small == 0:
        yield f"{large} / {small}", large // small


_SEARCH = re.compile(r"search\[(.*)\]", re.DOTALL)
_BUTTON_THOUGHTS = {
    "click[back to search]": "This is not what I need. I search again.",
    "click[< prev]": "I go back.",
    "click[next >]": "It is not on this page. I look at the next one.",
    "click[buy now]": "Everything fits the request. I buy it.",
}


def plan_page(env: TextEnv, limit: int) -> TurnPlan:
    """Give the purpose of the next search or click, in the page's words."""
    board, best = env.board(), best_action(env)
    assert isinstance(board, PageBoard)
    if best is None:
        return TurnPlan("I see nothing that fits.", [])
    thought = _BUTTON_THOUGHTS.get(best)
    for section in board.sections:
        for item in section.items:
            if item.action == best and section.layout == "list":
                thought = f"{item.text} may fit the request. I open it."
            if item.action == best and section.layout == "choices":
                thought = f"The request asks for {section.title} {item.text}. I choose it."
    if search := _SEARCH.fullmatch(best):
        thought = f"I look for {search[1]}."
    return TurnPlan(thought or f"Next: {best}.", [best])


_SUDOKU_THOUGHTS = {
    "only digit": "no other digit fits there",
    "only place in the row": "no other cell of its row can have it",
    "only place in the column": "no other cell of its column can have it",
    "only place in the box": "no other cell of its box can have it",
    "trial": "every other digit leads to a contradiction",
}


def plan_sudoku(env: TextEnv, limit: int) -> TurnPlan:
    """Deduce one digit after the other, with a reason for each."""
    ahead = copy.deepcopy(env)
    assert isinstance(ahead, Sudoku)
    thoughts, actions = [], list[str]()
    while len(actions) < limit and (deduction := ahead.deduction()) is not None:
        actions.append(ahead.action_for(deduction.cell, deduction.digit))
        thoughts.append(f"{actions[-1]}: {_SUDOKU_THOUGHTS[deduction.reason]}.")
        ahead.step(actions[-1])
    return TurnPlan(" ".join(thoughts) or "The grid is full.", actions)


def plan_2048(env: TextEnv, limit: int) -> TurnPlan:
    """Give the largest tile, and plan moves that suit any tiles that appear between them."""
    assert isinstance(env, Game2048)
    largest = 2 ** max(map(max, env.tiles))
    actions = env.plan(limit)
    return TurnPlan(f"My largest tile is {largest}. Next: {', then '.join(actions) or 'nothing moves'}.", actions)


def plan_from_hint(env: TextEnv, limit: int) -> TurnPlan:
    """Verbalise the solver's hint and follow it.

    If the distance is known and nothing is random, the plan has as many actions as a turn allows, else one.
    """
    hint = env.hint()
    if hint is None or not hint.actions:
        return TurnPlan("I see no way.", [])
    actions = [hint.actions[0]]
    if hint.distance is not None:
        ahead = copy.deepcopy(env)
        while len(actions) < min(limit, hint.distance):
            _, _, terminated, truncated, _ = ahead.step(actions[-1])
            following = None if terminated or truncated else best_action(ahead)
            if following is None:
                break
            actions.append(following)
    outlook = ""
    if hint.distance is not None:
        outlook = f"{hint.distance} action{'s' if hint.distance != 1 else ''} to go. "
    elif hint.value is not None:
        outlook = f"The best play is worth {hint.value:.2g}. "
    return TurnPlan(f"{outlook}Next: {', then '.join(actions)}.", actions)


# -- mistakes ------------------------------------------------------------------------------------------------------


def random_action(env: TextEnv, rng: np.random.Generator) -> str:
    """Return one of the environment's named actions, all equally likely."""
    return str(rng.choice(env.env_spec.actions))


_NUMBER, _OPERATOR = re.compile(r"\d+"), re.compile(r"[-+*/]")


def shuffled_equation(env: TextEnv, rng: np.random.Generator) -> str:
    """Return the right equation with shuffled numbers and random operators: well formed and rarely right."""
    equation = best_action(env) or ""
    numbers = iter([str(number) for number in rng.permutation(_NUMBER.findall(equation))])
    mixed = _NUMBER.sub(lambda _: next(numbers), equation)
    return _OPERATOR.sub(lambda _: str(rng.choice(list("+-*/"))), mixed)


def random_digit(env: TextEnv, rng: np.random.Generator) -> str:
    """Return a random digit in a random cell of a Sudoku that was empty at the start."""
    assert isinstance(env, Sudoku)
    blanks = [cell for cell, digit in enumerate(env.given) if not digit]
    return env.action_for(int(rng.choice(blanks)), int(rng.integers(1, env.shape.size + 1)))


def random_click(env: TextEnv, rng: np.random.Generator) -> str:
    """Return a random click that the page offers; if only a search is possible, a search for a single word."""
    board = env.board()
    assert isinstance(board, PageBoard)
    actions = [item.action for section in board.sections for item in section.items if item.action.startswith("click[")]
    if actions:
        return str(rng.choice(actions))
    search = _SEARCH.fullmatch(best_action(env) or "")
    return f"search[{rng.choice(search[1].split())}]" if search else "click[< prev]"


def answer_to_another_question(env: TextEnv, rng: np.random.Generator) -> str:
    """Return the right answer of another episode of the environment: well formed and usually wrong here."""
    seed = int(rng.integers(2**31))
    if env.hint() is None:
        return ""  # without a solver, no other episode has an answer either
    other = envs.make(env.env_spec.name, env.settings.model_dump(mode="json"))
    try:
        other.reset(seed=seed)
        return best_action(other) or ""
    finally:
        other.close()


# -- random play ---------------------------------------------------------------------------------------------------


def random_equation(env: TextEnv, rng: np.random.Generator) -> str:
    """Return all numbers of a Countdown problem in random order, with random brackets and operators of its settings."""
    assert isinstance(env, Countdown)
    terms = [str(number) for number in rng.permutation(env.problem.numbers)]
    while len(terms) > 1:
        at = int(rng.integers(len(terms) - 1))
        terms[at : at + 2] = [f"({terms[at]} {rng.choice(list(env.settings.operators))} {terms[at + 1]})"]
    return terms[0].removeprefix("(").removesuffix(")") if len(env.problem.numbers) > 1 else terms[0]


def random_page_action(env: TextEnv, rng: np.random.Generator) -> str:
    """Return a random click that the page offers; if only a search is possible, a search for a word of the request."""
    board = env.board()
    assert isinstance(board, PageBoard)
    items = [item for section in board.sections for item in section.items]
    clicks = [item.action for item in items if item.action.startswith("click[")]
    return str(rng.choice(clicks)) if clicks else f"search[{rng.choice(items[0].text.split())}]"


_RANDOM_ACTIONS: dict[str, MistakeRule] = {"Countdown": random_equation, "WebShop": random_page_action}


def get_random_player(env: TextEnv) -> MistakeRule:
    """Return what draws actions at random, without the knowledge of the solver that mistakes in demonstrations use."""
    return _RANDOM_ACTIONS.get(env.env_spec.name) or find_demonstrator(env).mistake


# -- registry -----------------------------------------------------------------------------------------------------

_SOKOBAN = Demonstrator(plan_sokoban, random_action)
_BANDIT = Demonstrator(plan_bandit, random_action)
DEMONSTRATORS: dict[str, Demonstrator] = {
    "Sokoban": _SOKOBAN,
    "LargeSokoban": _SOKOBAN,
    "SokobanNewVocab": _SOKOBAN,
    "Boxoban": _SOKOBAN,
    "FrozenLake": Demonstrator(plan_frozen_lake, random_action),
    "Bandit": _BANDIT,
    "BanditRev": _BANDIT,
    "BanditTest": _BANDIT,
    "Countdown": Demonstrator(plan_countdown, shuffled_equation),
    "WebShop": Demonstrator(plan_page, random_click),
    "Sudoku": Demonstrator(plan_sudoku, random_digit),
    "Game2048": Demonstrator(plan_2048, random_action),
}
"""Environments with their own demonstrator."""


def find_demonstrator(env: TextEnv) -> Demonstrator:
    """Return the demonstrator of an environment, whose solver may still have no advice."""
    specific = DEMONSTRATORS.get(env.env_spec.name)
    return specific or Demonstrator(
        plan_from_hint, random_action if env.env_spec.actions else answer_to_another_question
    )


# -- examples -----------------------------------------------------------------------------------------------------

_FIRST_EXAMPLE = 2**32
"""Seed of the first puzzle that may be an example. Seeds of runs have 32 bits, so that no run plays it."""
_TRIED = 20  # puzzles
_SHOWN_ACTIONS = 2
_SAME_PUZZLES = {"Boxoban": "Sokoban"}
"""Environments with puzzles that take long to read or solve → another one with the same thoughts and actions."""


def example_turns(name: str, settings: Mapping[str, Any], limit: int) -> list[TurnPlan]:
    """Return demonstrated turns of puzzles that no run plays, to show the format of an answer: always the same turns.

    A bandit has one turn for each arm, as a single turn would give the solution away.

    Args:
        name: a registered environment.
        settings: settings of the environment.
        limit: actions in a turn; the example has at most two, in order to be short.
    Returns:
        An empty list for environments without a specific demonstrator.
    """
    name, settings = (_SAME_PUZZLES[name], {}) if name in _SAME_PUZZLES else (name, settings)
    if name not in DEMONSTRATORS:
        return []
    if DEMONSTRATORS[name].plan is plan_page:  # a catalogue may take minutes to load
        return [TurnPlan("I look for canvas sneakers.", ["search[canvas sneakers]"])]
    env = envs.make(name, dict(settings))
    try:
        return _arm_turns(env) if DEMONSTRATORS[name].plan is plan_bandit else _example(env, min(limit, _SHOWN_ACTIONS))
    finally:
        env.close()


def _arm_turns(env: TextEnv) -> list[TurnPlan]:
    first, second = env.env_spec.actions
    return [
        TurnPlan(f"{arm} may pay more than {other}. I take {arm}.", [arm])
        for arm, other in ((first, second), (second, first))
    ]


def _example(env: TextEnv, wanted: int) -> list[TurnPlan]:
    """Return the first plan with exactly that many actions, or else the beginning of the last plan."""
    plan = find_demonstrator(env).plan
    for seed in range(_FIRST_EXAMPLE, _FIRST_EXAMPLE + _TRIED):
        env.reset(seed=seed)
        turn_plan = plan(env, wanted + 1)
        if len(turn_plan.actions) == wanted:
            return [turn_plan]
    beginning = plan(env, wanted)
    return [beginning] if beginning.actions else []
