"""One person's game as a page shows it, and what the session keeps of it: the actions, and hints that were asked for.

Rules live in the environments, live ones in tables.py. Budgets are the policy's: turns are filled one after the other.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from envs.base import Hint
from webapp.core import formatting
from webapp.play.sessions import SESSIONS, GameSession, Move
from webapp.play.starts import Start

SESSION_KEY = "games"
KEPT = 12
MAX_ACTION_LENGTH = 1000


@dataclass(frozen=True)
class Game:
    """A game at this moment. `hint` is there where one was asked for at this very state."""

    start: Start
    board: dict[str, Any]
    first_board: dict[str, Any]
    text: str
    names: tuple[str, ...]
    moves: list[Move]
    first_hint: Hint | None
    hint: Hint | None
    hints: int
    can_hint: bool
    said: str = ""
    lost_at: int = 0

    @property
    def taken(self) -> int:
        return len(self.moves)

    @property
    def total(self) -> float:
        return sum(move.reward for move in self.moves)

    @property
    def turn(self) -> int:
        """The turn that the next action belongs to, counted from 1."""
        return min(self.start.max_turns, self.taken // self.start.max_actions_per_turn + 1)

    @property
    def success(self) -> bool:
        return bool(self.moves) and self.moves[-1].success

    @property
    def over(self) -> bool:
        return (bool(self.moves) and self.moves[-1].ended) or self.taken >= self.start.budget

    @property
    def last(self) -> Move | None:
        return self.moves[-1] if self.moves else None

    @property
    def best(self) -> int | None:
        """Actions that optimal play needs from the start, where a solver knows it."""
        return self.first_hint.distance if self.first_hint else None

    @property
    def outcome(self) -> str:
        """How it ended, in words; empty while it goes on."""
        if not self.over:
            return ""
        length = formatting.plural(self.taken, "action")
        if self.success:
            end = f"Solved in {length}, reward {formatting.signed(self.total)}."
        elif self.moves[-1].ended:
            end = f"It ended without success after {length}, reward {formatting.signed(self.total)}."
        else:
            end = f"Out of actions after {self.taken}, reward {formatting.signed(self.total)}."
        if self.hints:
            end += f" You asked for {formatting.plural(self.hints, 'hint')}."
        if self.best and self.first_hint and self.first_hint.value is None:
            end += f" The best possible is {formatting.plural(self.best, 'action')}."
        if not self.success and self.lost_at:
            hint = self.moves[self.lost_at - 1].hint
            reason = f": {hint.reason}" if hint and hint.reason else ""
            end += f" It was lost with action {self.lost_at}{reason}."
        return end

    @property
    def advice(self) -> str:
        """The hint in words, empty where none was asked for."""
        if self.hint is None:
            return ""
        if self.hint.solvable == "no":
            return f"This can no longer be won: {self.hint.reason or 'no way to success is left'}. Start it again."
        if not self.hint.actions:
            return "The solver found no advice for this state."
        best = " or ".join(self.hint.actions[:3])
        if self.hint.distance:
            return f"Best: {best}; {formatting.plural(self.hint.distance, 'action')} to go."
        if self.hint.value is not None:
            return f"Best: {best}; worth {formatting.number(self.hint.value)} when played on perfectly."
        return f"Best: {best}."

    @property
    def status(self) -> str:
        """What a screen reader is told after each action."""
        if self.said:
            return self.said
        if self.outcome or self.advice:
            return self.outcome or self.advice
        if self.last is None:
            return ""
        effect = "" if self.last.effective else ", nothing moved"
        slip = f", but it slipped to {self.last.actual}" if self.last.actual else ""
        left = formatting.plural(self.start.budget - self.taken, "action")
        return f"{self.last.text[:60]}{slip}{effect}: {formatting.signed(self.last.reward)}. {left} left."

    @property
    def data(self) -> dict[str, Any]:
        """What the page's script draws."""
        last = self.last
        return {
            "board": self.board,
            "taken": self.taken,
            "last": {"name": last.text, "actual": last.actual} if last else None,
            "advice": self.hint.actions[0] if self.hint and self.hint.actions and not self.over else None,
            "status": self.status,
            "over": self.over,
        }


Kept = dict[str, Any]
"""What the session knows of a game: actions, hints (how many), hint_at (after how many actions the last one)."""


def look(person: int, start: Start, kept: Kept, said: str = "") -> Game:
    """The game as the session tells it. Raises what Tables.at raises."""
    return SESSIONS.at(person, start, kept["actions"], lambda table: _game(table, start, kept, said))


def act(person: int, start: Start, kept: Kept, text: str) -> Game:
    """Do one action and note it. Raises Refused for what is none, and what Tables.at raises."""
    before = list(kept["actions"])

    def step(table: GameSession) -> Game:
        if table.ended or len(table.moves) >= start.budget:
            return _game(table, start, kept, "This game is over: start it again or take another state.")
        table.act(text)
        return _game(table, start, kept | {"actions": table.actions, "hint_at": -1}, "")

    game = SESSIONS.at(person, start, before, step)
    if game.taken > len(before):
        kept.update({"actions": [move.text for move in game.moves], "hint_at": -1})
    return game


def _game(table: GameSession, start: Start, kept: Kept, said: str) -> Game:
    newest = table.moves[-1].hint if table.moves else table.hint
    asked = kept.get("hint_at") == len(table.moves)
    return Game(
        start=start,
        board=table.env.board().model_dump(exclude_none=True),
        first_board=table.board.model_dump(exclude_none=True),
        text=table.env.render(),
        names=table.env.env_spec.actions,
        moves=list(table.moves),
        first_hint=table.hint,
        hint=newest if asked else None,
        hints=kept.get("hints", 0),
        can_hint=newest is not None,
        said=said,
        lost_at=next(
            (number for number, move in enumerate(table.moves, 1) if move.hint and move.hint.solvable == "no"), 0
        ),
    )


def kept_game(session: MutableMapping[str, Any], start: Start) -> Kept:
    """What the session knows of the game at that start; a new one where it knows nothing."""
    found = session.get(SESSION_KEY, {}).get(start.key)
    return dict(found) if found else {"actions": [], "hints": 0, "hint_at": -1}


def keep_game(session: MutableMapping[str, Any], start: Start, kept: Kept) -> None:
    """Note the game in the session; the oldest of too many is forgotten."""
    games = {key: game for key, game in session.get(SESSION_KEY, {}).items() if key != start.key}
    session[SESSION_KEY] = dict(list(games.items())[-KEPT + 1 :]) | {start.key: kept}


def newest_query(session: MutableMapping[str, Any], environment: str) -> str:
    """The start of the game of that environment that was played last; empty where there is none."""
    mine = [key for key in session.get(SESSION_KEY, {}) if key.startswith(f"{environment}?")]
    return mine[-1].removeprefix(f"{environment}?") if mine else ""
