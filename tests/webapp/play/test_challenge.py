"""Visitors against the agent: who did better, and how far the agent's way is shown."""

from __future__ import annotations

import pytest

from webapp.play.challenge import compare, ghost
from webapp.trajectories.render.walk import BoardStep


@pytest.mark.parametrize(
    "yours, agents, winner, sentence",
    [
        (5, None, "you", "You beat the agent: you solved it in 5 actions, and it did not."),
        (5, 7, "you", "You beat the agent: 5 actions against 7."),
        (7, 7, "nobody", "A draw: you and the agent both solved it in 7 actions."),
        (None, None, "nobody", "A draw: neither you nor the agent solved it."),
        (8, 7, "agent", "The agent wins: 7 actions against your 8."),
        (None, 1, "agent", "The agent wins: it solved it in 1 action."),
    ],
)
def test_fewer_actions_win(yours: int | None, agents: int | None, winner: str, sentence: str) -> None:
    duel = compare(yours, agents)
    assert (duel.winner, duel.sentence) == (winner, sentence)


def test_the_agents_way_is_shown_as_far_as_the_visitor_has_played() -> None:
    steps = [BoardStep({}, (column, 0), None) for column in range(4)]
    assert [place["player"] for place in ghost(steps, 2)] == [(0, 0), (1, 0), (2, 0)]
    assert len(ghost(steps, 9)) == 4
