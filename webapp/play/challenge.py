"""“Beat the agent”: a person plays the puzzle of an attempt, with the agent's budget; the agent moves when they move.

Visitors without an account play that of a shared attempt. Their game is its address: the actions so far. Nothing is
stored, and no cookie is set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import envs
from webapp.core.formatting import plural
from webapp.play.best_runs import without_players
from webapp.play.games import Game
from webapp.play.sessions import is_available
from webapp.play.starts import NoSuchStart, Start, of_trajectory
from webapp.trajectories.models import Trajectory
from webapp.trajectories.render.walk import BoardStep, walk
from webapp.trajectories.serialize import turn_events

Winner = Literal["you", "agent", "nobody"]


@dataclass(frozen=True)
class Duel:
    """Who did better, and the sentence that says it."""

    winner: Winner
    sentence: str


def start_of_challenge(trajectory: Trajectory) -> Start | None:
    """Return the initial state of an attempt, or None if visitors cannot play it. Select its group and run.

    Visitors can play attempts that have ended, in environments of this project that run in the web process and have
    named actions.
    """
    name = trajectory.group.environment
    if trajectory.run.recorded is not None or trajectory.success is None or name not in envs.names():
        return None
    if envs.variants(name) or not (spec := envs.spec(name)).actions:
        return None
    try:
        start = of_trajectory(trajectory, spec)
    except NoSuchStart:
        return None
    return start if is_available(start) else None


def is_same_puzzle(game: Game, trajectory: Trajectory) -> bool:
    """Return True if the game began with the attempt's board, which another version may have drawn differently."""
    return bool(without_players(game.first_board) == without_players(trajectory.group.board))


def judge_duel(game: Game, trajectory: Trajectory) -> Duel | None:
    """Compare a game that is over with the agent's attempt; None before the end of either."""
    if not game.over or trajectory.success is None:
        return None
    return compare(game.taken if game.success else None, trajectory.action_count if trajectory.success else None)


def compare(yours: int | None, agents: int | None) -> Duel:
    """Compare two attempts by the number of actions that solved the puzzle; None for an attempt that did not."""
    if yours is None and agents is None:
        return Duel("nobody", "A draw: neither you nor the agent solved it.")
    if agents is None:
        return Duel("you", f"You beat the agent: you solved it in {plural(yours or 0, 'action')}, and it did not.")
    if yours is None:
        return Duel("agent", f"The agent wins: it solved it in {plural(agents, 'action')}.")
    if yours == agents:
        return Duel("nobody", f"A draw: you and the agent both solved it in {plural(yours, 'action')}.")
    if yours < agents:
        return Duel("you", f"You beat the agent: {plural(yours, 'action')} against {agents}.")
    return Duel("agent", f"The agent wins: {plural(agents, 'action')} against your {yours}.")


def agents_way(trajectory: Trajectory) -> list[BoardStep]:
    """Return the agent's steps so far. Select its group. One query."""
    records = (record for event in turn_events(trajectory) for record in event["actions"])
    return walk(trajectory.group.board, list(records))


def ghost(steps: Sequence[BoardStep], taken: int) -> list[Mapping[str, Any]]:
    """Return the agent's way only as far as the person has played, so that it reveals nothing ahead."""
    return [{"player": step.player, "push": step.push} for step in steps[: taken + 1]]
