"""Attempts with a mistake on each kind of board without cells: arms, pages, text; as the player's data with marks."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import envs
from tests.webapp.trajectories.scripted_attempt import played
from webapp.trajectories.mistakes.budgets import Limits
from webapp.trajectories.mistakes.judge import find_marks, verdict
from webapp.trajectories.mistakes.steps import judge_actions

BUDGETS = Limits(turns=10, actions_per_turn=3, actions=20)


def judged(environment: str, turns: list[list[str]], seed: int = 3) -> dict[str, Any]:
    """An attempt with these actions by turn, its marks and its verdict."""
    env = envs.make(environment)
    env.reset(seed=seed)
    data = played(env, turns)
    steps = list(judge_actions(data, environment, BUDGETS))
    marks = find_marks(steps)
    found = verdict(data, steps, marks, BUDGETS)
    return data | {"marks": [asdict(mark) for mark in marks], "verdict": asdict(found) if found else None}


def bandit() -> dict[str, Any]:
    """The low arm pulled."""
    return judged("Bandit", [["Phoenix"]])


def countdown() -> dict[str, Any]:
    """A sum of all numbers, which is not the target."""
    env = envs.make("Countdown")
    env.reset(seed=3)
    return judged("Countdown", [[" + ".join(map(str, env.problem.numbers))]])  # type: ignore[attr-defined]


def shop() -> dict[str, Any]:
    """The first result of the solver's search bought without any options; its last action is a mistake."""
    env = envs.make("WebShop")
    env.reset(seed=9)
    hint = env.hint()
    assert hint is not None
    search = hint.actions[0]
    env.step(search)
    following = env.hint()
    assert following is not None
    return judged("WebShop", [[search], [following.actions[0]], ["click[buy now]"]], seed=9)
