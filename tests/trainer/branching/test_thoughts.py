"""Does the thought matter, and what is a position worth: on policies whose answer is known."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.trainer.branching.constructed import STATE, Constructed, best_actions
from tests.trainer.branching.recordings import attempts, load, record
from trainer.branching.asking import Asker
from trainer.branching.local_player import LocalPlayer
from trainer.branching.player import Weights
from trainer.branching.questions import answer
from trainer.journal.branches import Advanced, CompareThoughts, FindValue
from trainer.loops.recorded_attempts import find_attempt

MOVE = re.compile(r"\bPush (Up|Down|Left|Right)\b")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of the pocket policy, whose thoughts name the push that it plans."""
    return record(tmp_path_factory.mktemp("thoughts"), prompts=6)


def ask(folder: Path, choose, samples: int = 8):
    """The influence of the thoughts of the first attempt on a constructed policy."""
    policy = load(folder).policy
    player = LocalPlayer(policy, Weights(folder, 0), make=lambda config, chat: Constructed(chat, choose))
    name = attempts(folder)[0]
    return answer(CompareThoughts(id="q", trajectory=name, samples=samples), player, Asker(lambda message: None))


def test_a_policy_that_ignores_its_thought_has_no_influence(folder):
    found = ask(folder, lambda prompt, thought, seed: ("Up", "Down", "Left", "Right")[seed % 4])
    assert found.turns
    assert (found.influence, found.follows_false_claims) == (0.0, 0.0)
    assert len(found.turns[0].actions["own"]) > 1, "although its actions differ from sample to sample"


def test_a_policy_that_copies_the_action_from_its_thought_is_decided_by_it(folder):
    def copied(prompt: str, thought: str, seed: int) -> str:
        return found[1] if (found := MOVE.search(thought)) else "Stay"

    found = ask(folder, copied)
    recorded = find_attempt(folder, attempts(folder)[0]).turns
    assert found.influence == 1.0
    assert found.follows_false_claims == 0.0, "it does not read the claims"
    for turn in found.turns:
        assert turn.actions["own"] == {copied("", recorded[turn.turn].thought, 0): 8}
        assert turn.distances["none"] == 1.0


def test_a_policy_that_acts_on_claims_follows_false_ones(folder):
    def by_row(prompt: str, thought: str, seed: int) -> str:
        return " || ".join(("Up", "Down", "Left", "Right")[int(digit) % 4] for digit in re.findall(r"\d", thought)[:2])

    found = ask(folder, by_row)
    assert all(turn.false and turn.kept_claims == 0 < turn.claims for turn in found.turns)
    assert found.follows_false_claims == 1.0


def test_the_value_of_best_play_falls_at_the_fatal_turn(tmp_path):
    """A policy that plays the solver's advice wins where it can be won, so that the fall is the fatal move."""
    budgets = {"max_turns": 12, "max_actions": 36, "max_actions_per_turn": 3}
    folder = record(tmp_path, prompts=12, temperature=1.0, rollout=budgets)
    player = LocalPlayer(load(folder).policy, Weights(folder, 0), make=lambda config, chat: Constructed(chat, solved))

    def solved(prompt: str, thought: str, seed: int) -> str:
        return best_actions(STATE.findall(prompt)[-1])

    lost = 0
    for name in attempts(folder):
        attempt = find_attempt(folder, name)
        if attempt.finished.lost_at is None:
            continue
        values = answer(FindValue(id="q", trajectory=name, samples=2), player, Asker(lambda message: None))
        fatal = attempt.finished.lost_at.turn
        assert values.decisive == fatal
        assert [value.solved.share for value in values.turns] == [
            float(turn <= fatal) for turn in range(len(values.turns))
        ]
        lost += 1
    assert lost >= 2


def test_the_value_of_a_greedy_policy_is_its_outcome(folder):
    player, name = load(folder), attempts(folder)[0]
    attempt, answers = find_attempt(folder, name), []
    values = answer(FindValue(id="q", trajectory=name, samples=2, temperature=0), player, Asker(answers.append))
    assert {value.solved.share for value in values.turns} == {float(attempt.finished.success)}
    done = [message.done for message in answers if isinstance(message, Advanced)]
    assert done == [2 * (number + 1) for number in range(len(attempt.turns))]
