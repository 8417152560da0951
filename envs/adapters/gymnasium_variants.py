"""Texts, boards and action names of Gymnasium's small variants: toy text and classic control."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from envs.adapters.gymnasium_texts import observation_text
from envs.base import GridBoard, Symbol, TextBoard

THEME = "gymnasium"
SuccessRule = Literal["reward", "termination", "time_limit"]
"""Definition of success: a positive last reward, an end by the rules, or no end before the time limit."""
Board = GridBoard | TextBoard


@dataclass(frozen=True)
class VariantKind:
    """Facts about an environment class of Gymnasium.

    Attributes:
        actions: names, by number.
        task: returns the instruction, given the environment without its wrappers.
        text: returns the text of the environment and its observation.
        board: returns their board; None if there is only text.
        actions_per_turn: recommended number.
        most_actions: recommended limit if the environment has no time limit.
    """

    actions: tuple[str, ...]
    success: SuccessRule
    task: Callable[[Any], str]
    text: Callable[[Any, Any], str]
    board: Callable[[Any, Any], Board] | None = None
    vocabulary: dict[str, str] = field(default_factory=dict)
    actions_per_turn: int = 5
    most_actions: int = 100


ICE = {
    "P": Symbol(name="player", tone="player"),
    "S": Symbol(name="start"),
    "F": Symbol(name="ice"),
    "H": Symbol(name="hole", tone="danger"),
    "G": Symbol(name="goal", tone="goal"),
    "X": Symbol(name="player in a hole", tone="player", glyph="X"),
    "W": Symbol(name="player on the goal", tone="player", glyph="W"),
}
CLIFF = {
    "P": Symbol(name="player", tone="player"),
    "_": Symbol(name="ground"),
    "C": Symbol(name="cliff", tone="danger"),
    "G": Symbol(name="goal", tone="goal"),
    "W": Symbol(name="player on the goal", tone="player", glyph="W"),
}
STREETS = {
    "T": Symbol(name="taxi", tone="player", glyph="T"),
    "|": Symbol(name="wall", tone="wall"),
    "-": Symbol(name="wall", tone="wall"),
    "+": Symbol(name="wall", tone="wall"),
    ":": Symbol(name="open border"),
    " ": Symbol(name="street"),
}
STOPS = "RGYB"


def _meanings(symbols: dict[str, Symbol]) -> dict[str, str]:
    return {sign: symbol.name for sign, symbol in symbols.items()}


def _is_random(env: Any) -> bool:
    return any(len(outcomes) > 1 for by_action in env.P.values() for outcomes in by_action.values())


def _ice_task(env: Any) -> str:
    ice = " The ice is slippery: you may slide sideways." if _is_random(env) else ""
    return f"Walk over the ice to the goal and avoid the holes.{ice}"


def _ice_rows(env: Any) -> list[str]:
    rows = [[bytes(cell).decode() for cell in row] for row in env.desc]
    row, column = divmod(int(env.s), int(env.ncol))
    rows[row][column] = {"H": "X", "G": "W"}.get(rows[row][column], "P")
    return ["".join(cells) for cells in rows]


def _ice_text(env: Any, _: Any) -> str:
    return "\n".join(_ice_rows(env))


def _ice_board(env: Any, _: Any) -> Board:
    return GridBoard(theme=THEME, rows=_ice_rows(env), legend=ICE)


def _cliff_task(env: Any) -> str:
    slips = " Steps may slip sideways." if _is_random(env) else ""
    return f"Walk to the goal. A step into the cliff costs 100 and leads back to the start.{slips}"


def _cliff_rows(env: Any) -> list[str]:
    height, width = env.shape
    rows = [["C" if env._cliff[row, column] else "_" for column in range(width)] for row in range(height)]
    rows[-1][-1] = "G"
    row, column = divmod(int(env.s), width)
    rows[row][column] = "W" if rows[row][column] == "G" else "P"
    return ["".join(cells) for cells in rows]


def _cliff_text(env: Any, _: Any) -> str:
    return "\n".join(_cliff_rows(env))


def _cliff_board(env: Any, _: Any) -> Board:
    return GridBoard(theme=THEME, rows=_cliff_rows(env), legend=CLIFF)


def _taxi_task(env: Any) -> str:
    return "Drive the taxi to the passenger, pick them up, drive to their destination and drop them off there."


def _taxi_rows(env: Any) -> list[str]:
    rows = [[bytes(cell).decode() for cell in row] for row in env.desc]
    row, column, _, _ = env.decode(env.s)
    rows[row + 1][2 * column + 1] = "T"
    return ["".join(cells) for cells in rows]


def _taxi_text(env: Any, _: Any) -> str:
    row, column, passenger, destination = env.decode(env.s)
    stop = next((f", at {STOPS[n]}" for n, at in enumerate(env.locs) if tuple(at) == (row, column)), "")
    waiting = "in the taxi" if passenger == len(STOPS) else f"at {STOPS[passenger]}"
    lines = [
        f"Taxi: row {row + 1}, column {column + 1}{stop}",
        f"Passenger: {waiting}",
        f"Destination: {STOPS[destination]}",
    ]
    return "\n".join([*_taxi_rows(env), *lines])


def _taxi_board(env: Any, _: Any) -> Board:
    _, _, passenger, destination = env.decode(env.s)
    stops = {sign: Symbol(name=f"stop {sign}", tone="good", glyph=sign) for sign in STOPS}
    if passenger < len(STOPS):
        stops[STOPS[passenger]] = Symbol(name="passenger", tone="piece", glyph=STOPS[passenger])
    taxi = "taxi with the passenger" if passenger == len(STOPS) else "taxi"
    stops[STOPS[destination]] = Symbol(
        name="passenger, at the destination" if passenger == destination else "destination",
        tone="goal",
        glyph=STOPS[destination],
    )
    return GridBoard(
        theme=THEME, rows=_taxi_rows(env), legend=STREETS | stops | {"T": Symbol(name=taxi, tone="player")}
    )


def _cards_task(env: Any) -> str:
    return "Come closer to 21 than the dealer without going over it. Hit takes another card, Stick ends your turn."


def _cards_text(_: Any, observation: Any) -> str:
    total, dealer, ace = observation
    usable = ", with an ace that counts 11" if ace else ""
    return f"Your cards: {int(total)}{usable}\nThe dealer shows: {int(dealer)}"


def _numbers(*labels: str) -> Callable[[Any, Any], str]:
    return lambda _, observation: observation_text(observation, labels)


def _task(text: str) -> Callable[[Any], str]:
    return lambda _: text


KINDS: dict[str, VariantKind] = {
    "gymnasium.envs.toy_text.frozen_lake:FrozenLakeEnv": VariantKind(
        ("Left", "Down", "Right", "Up"), "reward", _ice_task, _ice_text, _ice_board, _meanings(ICE)
    ),
    "gymnasium.envs.toy_text.cliffwalking:CliffWalkingEnv": VariantKind(
        ("Up", "Right", "Down", "Left"), "termination", _cliff_task, _cliff_text, _cliff_board, _meanings(CLIFF)
    ),
    "gymnasium.envs.toy_text.taxi:TaxiEnv": VariantKind(
        ("South", "North", "East", "West", "Pickup", "Dropoff"),
        "reward",
        _taxi_task,
        _taxi_text,
        _taxi_board,
        {"T": "taxi", "|": "wall", ":": "open border", "R, G, Y, B": "stops"},
    ),
    "gymnasium.envs.toy_text.blackjack:BlackjackEnv": VariantKind(
        ("Stick", "Hit"), "reward", _cards_task, _cards_text, actions_per_turn=1, most_actions=10
    ),
    "gymnasium.envs.classic_control.cartpole:CartPoleEnv": VariantKind(
        ("Left", "Right"),
        "time_limit",
        _task("Push the cart left or right so that its pole stays upright and the cart near the middle."),
        _numbers("position", "speed", "angle", "angular speed"),
    ),
    "gymnasium.envs.classic_control.mountain_car:MountainCarEnv": VariantKind(
        ("Left", "Coast", "Right"),
        "termination",
        _task("Swing the car out of the valley to the flag on the right, at position 0.5."),
        _numbers("position", "speed"),
    ),
    "gymnasium.envs.classic_control.acrobot:AcrobotEnv": VariantKind(
        ("Negative", "None", "Positive"),
        "termination",
        _task("Apply torque between the two links so that the free end swings above the line."),
        _numbers("cos θ1", "sin θ1", "cos θ2", "sin θ2", "angular speed 1", "angular speed 2"),
    ),
}
"""Class of an environment, `module:Name` → facts about it."""
