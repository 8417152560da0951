"""Kinds of claims: each claim that is read names what it is about."""

import pytest

from bench.claims import precision
from envs import registry
from envs.claims.kinds import CLAIM_KINDS, OTHER, known_kind
from tests.envs.claims.test_grid_claims import LAKE, ROOM
from tests.envs.claims.test_other_claims import ARMS, PRODUCT, TASK, shop_page


def kinds(environment, thought, board):
    return [claim.kind for claim in registry.read_claims(environment, thought, board)]


@pytest.mark.parametrize(
    ("environment", "thought", "board", "expected"),
    [
        ("Sokoban", "I am at 5,3. Box 3,4. Target 4,2.", ROOM, ["own_position", "box_position", "target_position"]),
        ("Sokoban", "The player is in row 5. The box is in column 4.", ROOM, ["own_position", "box_position"]),
        ("Sokoban", "The box is directly below the target.", ROOM, ["direction"]),
        ("Sokoban", "The box is 1 step away from the target.", ROOM, ["direction"]),
        ("Sokoban", "There is a wall directly to my left.", ROOM, ["wall"]),
        ("Sokoban", "The box is in a corner. The box is against the wall.", ROOM, ["wall", "wall"]),
        ("Sokoban", "The box is on the target.", ROOM, ["boxes_on_targets"]),
        ("Sokoban", "The cell above the box is a wall.", ROOM, ["neighbour"]),
        ("Sokoban", "There are two boxes. The board is 9x9.", ROOM, ["count", "size"]),
        ("FrozenLake", "Goal 3,2. Hole 2,3. I am at 1,4.", LAKE, ["goal_position", "hole_position", "own_position"]),
        ("FrozenLake", "I am in the top-left corner of the lake.", LAKE, ["own_position"]),
        ("FrozenLake", "The goal is unreachable.", LAKE, ["way"]),
        ("Bandit", "Phoenix has been pulled twice. Phoenix last paid 0.3.", ARMS, ["pulls", "payment"]),
        ("Bandit", "There are three arms.", ARMS, ["arms"]),
        ("Countdown", "Target: 25. 3 * 8 = 25. 3 is greater than 8.", TASK, ["task", "result", "comparison"]),
    ],
)
def test_a_claim_names_what_it_is_about(environment, thought, board, expected):
    assert kinds(environment, thought, board) == expected


def test_claims_about_a_page_name_what_it_shows():
    assert kinds("WebShop", "The price is $1.00.", shop_page(*PRODUCT)) == ["price"]
    assert kinds("WebShop", "I am on the search page.", shop_page(*PRODUCT)) == ["page"]


def test_every_labelled_claim_has_a_kind_of_the_list_and_every_kind_occurs():
    found = {
        claim.kind
        for environment in precision.ENVIRONMENTS
        for sentence in precision.read_sentences(environment)
        for claim in registry.read_claims(environment, sentence.text, sentence.board)
    }
    assert found == CLAIM_KINDS.keys() - {OTHER}


@pytest.mark.parametrize("kind", [None, "", "weather"])
def test_an_unknown_kind_counts_as_other(kind):
    assert known_kind(kind) == OTHER
