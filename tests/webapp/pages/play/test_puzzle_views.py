"""Sudoku, 2048 and Rubik's cube on their pages: buttons or a text field, the board, and a game to its end."""

from __future__ import annotations

import html
import json
import re

import pytest
from django.test import Client

import envs
from tests.webapp.page_requests import Visitors, who
from webapp.play import starts
from webapp.play.keys import make_keys

__all__ = ["who"]


def act(client: Client, name: str, **fields: str) -> str:
    response = client.post(f"/environments/{name}/play", {"prompt": "1", **fields}, headers={"HX-Request": "true"})
    return html.unescape(response.content.decode())


@pytest.mark.parametrize(("name", "field"), [("Sudoku", "typed"), ("Game2048", "action"), ("RubiksCube", "action")])
def test_a_puzzle_is_played_to_its_end_on_its_page(name: str, field: str, who: Visitors) -> None:
    start = starts.find(None, envs.spec(name), name, "prompt=1")
    env = envs.make(name)
    env.reset(seed=start.seed, options={"dynamics_seed": start.dynamics})
    over = False
    while not over:
        hint = env.hint()
        assert hint is not None
        page = act(who.owner, name, **{field: hint.actions[0]})
        _, _, over, _, info = env.step(hint.actions[0])
        found = re.search(r'<script id="play-data" type="application/json">(.*?)</script>', page, re.S)
        assert found is not None, page
        shown = json.loads(found[1])
        assert shown["board"] == env.board().model_dump(exclude_none=True)
    assert shown["over"]
    assert info["success"]
    assert "Solved in" in page


def test_a_text_that_is_no_action_of_sudoku_uses_no_action(who: Visitors) -> None:
    page = act(who.owner, "Sudoku", typed="put a 3 somewhere")
    assert "is not possible here. Nothing was done, and no action was used." in page
    assert 'data-kind="grid"' in page
    assert 'name="typed"' in page


def test_moves_of_2048_have_arrow_keys_and_turns_of_the_cube_numbers() -> None:
    assert {key.place for key in make_keys(envs.spec("Game2048").actions)} == {"up", "down", "left", "right"}
    turns = make_keys(envs.spec("RubiksCube", {"size": 3}).actions)
    assert [key.sign for key in turns] == [str(number) for number in range(1, 10)] + ["", "", ""]
    assert len({key.id for key in turns}) == 12
    assert all(re.fullmatch(r"[a-z0-9-]+", key.id) for key in turns)
