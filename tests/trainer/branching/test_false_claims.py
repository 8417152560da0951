"""Thoughts with false claims: every claim is false for the reader of claims, and nothing else is changed."""

from __future__ import annotations

import re

import pytest

import envs
from envs import registry
from envs.base import Arm, ArmsBoard
from trainer.branching.false_claims import make_claims_false
from trainer.cli.main import default_config
from trainer.imitation.demonstrations import demonstrate

ROOM = "######\n#____#\n#_PX_#\n#O___#\n#____#\n######"


def falsified(environment, thought, board):
    return make_claims_false(thought, lambda text: registry.read_claims(environment, text, board))


def sokoban(thought):
    env = envs.make("Sokoban")
    env.reset(seed=0, options={"room": ROOM})
    return falsified("Sokoban", thought, env.board())


def test_a_position_is_moved_and_the_plan_stays():
    false = sokoban("I am at 3,3. Box 3,4. Target 4,2. Push Left from 3,5 to 3,2.")
    assert (false.claims, false.kept) == (3, 0)
    assert false.text.endswith(". Push Left from 3,5 to 3,2.")
    assert re.match(r"I am at (?!3,3)\d,\d\. Box (?!3,4)\d,\d\. Target (?!4,2)\d,\d\.", false.text)


def test_words_are_turned_round():
    false = sokoban("The box is to the right of me, and the target is below me.")
    assert (false.claims > 0, false.kept) == (True, 0)
    assert "to the left of me" in false.text


def test_a_false_claim_is_left_as_it_is():
    thought = "Target 1,1."
    assert sokoban(thought).text == thought


def test_a_thought_without_claims_has_no_false_version():
    assert sokoban("I should think harder.") is None


def test_names_are_exchanged():
    board = ArmsBoard(arms=[Arm(name="Dragon", pulls=3, total=3, last=1), Arm(name="Phoenix")])
    false = falsified("Bandit", "Dragon was pulled 3 times. The first arm is Dragon.", board)
    assert (false.claims, false.kept) == (2, 0)
    assert "The first arm is Phoenix." in false.text or "The second arm is Dragon." in false.text


@pytest.mark.parametrize("environment", ["Sokoban", "FrozenLake", "Countdown"])
def test_all_claims_of_demonstrated_thoughts_become_false(environment, chat):
    claims = 0
    for seed in range(8):
        played = demonstrate(default_config(environment), chat, seed, noise=0, mistake_rate=0, context=100_000)
        for turn in played.trajectory.turns:
            false = falsified(environment, turn.thought, turn.board)
            assert not any(claim.true for claim in registry.read_claims(environment, false.text, turn.board))
            assert false.kept == 0
            claims += false.claims
    assert claims >= 16
