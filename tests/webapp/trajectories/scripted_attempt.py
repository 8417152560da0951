"""Attempts with given actions in a real environment, as journal events and as the player's data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import envs
from envs.base import TextEnv
from tests.webapp.journal_builder import end, group, started, turn
from trainer.journal import events as journal
from webapp.trajectories.mistakes.budgets import Limits

ROOM = """
######
#@  ##
# $ ##
#  .##
######
"""
LOCKED = [["Right", "Down"], ["Right", "Down", "Left"]]
"""Actions by turn in ROOM: a detour of two actions, and then the box in a corner."""
BUDGETS = Limits(turns=5, actions_per_turn=5, actions=10)


def sokoban() -> TextEnv:
    """Sokoban at the start of ROOM."""
    env = envs.make("Sokoban")
    env.reset(seed=1, options={"room": ROOM.strip()})
    return env


def records(env: TextEnv, names: Sequence[str]) -> tuple[list[journal.ActionRecord], bool, bool]:
    """The executed actions, whether the episode ended and whether it was solved."""
    done: list[journal.ActionRecord] = []
    over = success = False
    for name in names:
        if over:
            done.append(journal.ActionRecord(text=name, status="ignored", name=name))
            continue
        _, reward, terminated, truncated, info = env.step(name)
        over, success = terminated or truncated, bool(info["success"])
        done.append(
            journal.ActionRecord(
                text=name,
                status="executed",
                name=name,
                reward=reward,
                effective=info["effective"],
                actual=info.get("actual"),
                board=env.board(),
                hint=env.hint(),
            )
        )
    return done, over, success


def events(env: TextEnv, turns: Sequence[Sequence[str]], key: str = "attempt", ended: str = "turns") -> Iterator[Any]:
    """The journal of a run with this one attempt."""
    yield started()
    yield group(1, 0, [key]).model_copy(update={"board": env.board(), "hint": env.hint()})
    success = over = False
    lost: journal.LostAt | None = None
    for number, names in enumerate(turns):
        if over:
            break
        done, over, success = records(env, names)
        for place, record in enumerate(done):
            if lost is None and record.hint is not None and record.hint.solvable == "no":
                lost = journal.LostAt(turn=number, action=place, reason=record.hint.reason or "")
        yield turn(key, number).model_copy(update={"actions": done})
    closing = end(key, len(turns), success)
    yield closing.model_copy(update={"end": "terminated" if over else ended, "lost_at": None if success else lost})


def played(env: TextEnv, turns: Sequence[Sequence[str]], ended: str = "turns") -> dict[str, Any]:
    """The same in the player's format, without marks."""
    data: dict[str, Any] = {"turns": []}
    for event in events(env, turns, ended=ended):
        fields = event.model_dump(mode="json")
        match fields["type"]:
            case "group_started":
                data |= {"board": fields["board"], "hint": fields["hint"]}
            case "turn":
                data["turns"].append(fields)
            case "trajectory_finished":
                data |= {name: fields[name] for name in ("success", "end", "lost_at", "total_reward")}
    return data
