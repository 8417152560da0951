"""A user's game as the page shows it, and its saved state in the Django session: actions and requested hints.

Budgets are those of the policy: each turn is filled before the next one begins.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from envs.base import Hint
from webapp.core import formatting
from webapp.play.sessions import SESSIONS, VISITOR_SESSIONS, GameSession, Move
from webapp.play.starts import Start

SESSION_KEY = "games"
MAX_SAVED_GAMES = 12
MAX_ACTION_LENGTH = 1000


@dataclass(frozen=True)
class Game:
    """State of a game. `hint` is set if one was requested at this state."""

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
    message: str = ""
    lost_at: int = 0

    @property
    def taken(self) -> int:
        return len(self.moves)

    @property
    def total(self) -> float:
        return sum(move.reward for move in self.moves)

    @property
    def turn(self) -> int:
        """Turn of the next action, 1-based."""
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
        """Length of an optimal solution from the start, if a solver knows it."""
        return self.first_hint.distance if self.first_hint else None

    @property
    def outcome(self) -> str:
        """Result as text; empty during the game."""
        if not self.over:
            return ""
        length = formatting.plural(self.taken, "action")
        if self.success:
            end = f"Solved in {length}, reward {formatting.signed(self.total)}."
        elif self.moves[-1].ended:
            end = f"Ended without success after {length}, reward {formatting.signed(self.total)}."
        else:
            end = f"Out of actions after {self.taken}, reward {formatting.signed(self.total)}."
        if self.hints:
            end += f" Hints used: {self.hints}."
        if self.best and self.first_hint and self.first_hint.value is None:
            end += f" The optimum is {formatting.plural(self.best, 'action')}."
        if not self.success and self.lost_at:
            hint = self.moves[self.lost_at - 1].hint
            reason = f": {hint.reason}" if hint and hint.reason else ""
            end += f" It became unsolvable with action {self.lost_at}{reason}."
        return end

    @property
    def advice(self) -> str:
        """The hint as text, empty if none was requested."""
        if self.hint is None:
            return ""
        if self.hint.solvable == "no":
            return f"This can no longer be won: {self.hint.reason or 'success is out of reach'}. Restart it."
        if not self.hint.actions:
            return "The solver found no advice for this state."
        best = " or ".join(self.hint.actions[:3])
        if self.hint.distance:
            return f"Best: {best}; {formatting.plural(self.hint.distance, 'action')} to go."
        if self.hint.value is not None:
            return f"Best: {best}; worth {formatting.number(self.hint.value)} with optimal play."
        return f"Best: {best}."

    @property
    def status(self) -> str:
        """Status text for screen readers after each action."""
        if self.message:
            return self.message
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
        """Data of the page's script."""
        last = self.last
        return {
            "board": self.board,
            "taken": self.taken,
            "last": {"name": last.text, "actual": last.actual} if last else None,
            "advice": self.hint.actions[0] if self.hint and self.hint.actions and not self.over else None,
            "status": self.status,
            "over": self.over,
        }


SavedGame = dict[str, Any]
"""A game in the session: actions, hints (their number), hint_at (actions before the last hint)."""


def resume(person: int, start: Start, saved: SavedGame, message: str = "") -> Game:
    """The game restored from its saved state. Raises the errors of SessionPool.at."""
    return SESSIONS.at(person, start, saved["actions"], lambda session: _game(session, start, saved, message))


def replay(visitor: str, start: Start, actions: Sequence[str]) -> Game:
    """The game of a visitor after those actions, up to its end. Raises the errors of SessionPool.at."""
    saved: SavedGame = {"actions": list(actions[: start.budget])}
    return VISITOR_SESSIONS.at(visitor, start, saved["actions"], lambda session: _game(session, start, saved, ""))


def act(person: int, start: Start, saved: SavedGame, text: str) -> Game:
    """Execute an action and save it. Raises ActionRefused and the errors of SessionPool.at."""
    before = list(saved["actions"])

    def step(session: GameSession) -> Game:
        if session.ended or len(session.moves) >= start.budget:
            return _game(session, start, saved, "This game is over. Restart it or choose another puzzle.")
        session.act(text)
        return _game(session, start, saved | {"actions": session.actions, "hint_at": -1}, "")

    game = SESSIONS.at(person, start, before, step)
    if game.taken > len(before):
        saved.update({"actions": [move.text for move in game.moves], "hint_at": -1})
    return game


def _game(session: GameSession, start: Start, saved: SavedGame, message: str) -> Game:
    newest = session.moves[-1].hint if session.moves else session.hint
    hint_requested = saved.get("hint_at") == len(session.moves)
    return Game(
        start=start,
        board=session.env.board().model_dump(exclude_none=True),
        first_board=session.board.model_dump(exclude_none=True),
        text=session.env.render(),
        names=session.env.env_spec.actions,
        moves=list(session.moves),
        first_hint=session.hint,
        hint=newest if hint_requested else None,
        hints=saved.get("hints", 0),
        can_hint=newest is not None,
        message=message,
        lost_at=next(
            (number for number, move in enumerate(session.moves, 1) if move.hint and move.hint.solvable == "no"), 0
        ),
    )


def saved_game(session: MutableMapping[str, Any], start: Start) -> SavedGame:
    """Saved state of the game at that start, or of a new game."""
    stored = session.get(SESSION_KEY, {}).get(start.key)
    return dict(stored) if stored else {"actions": [], "hints": 0, "hint_at": -1}


def save_game(session: MutableMapping[str, Any], start: Start, saved: SavedGame) -> None:
    """Save the game in the session, and drop the oldest if there are too many."""
    games = {key: game for key, game in session.get(SESSION_KEY, {}).items() if key != start.key}
    session[SESSION_KEY] = dict(list(games.items())[-MAX_SAVED_GAMES + 1 :]) | {start.key: saved}


def newest_query(session: MutableMapping[str, Any], environment: str, variant: str = "") -> str:
    """Query of the most recent game in the environment, or in that variant of it; empty without one."""
    beginning = f"{environment}?{urlencode({'id': variant})}&" if variant else f"{environment}?"
    mine = [key for key in session.get(SESSION_KEY, {}) if key.startswith(beginning)]
    return mine[-1].removeprefix(f"{environment}?") if mine else ""
