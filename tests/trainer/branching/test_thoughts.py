"""Does the thought matter, and what is a position worth: on policies whose answer is known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

import envs
from tests.trainer.branching.recordings import attempts, load, record
from trainer.branching.player import BranchPlayer, Weights
from trainer.branching.questions import Asker, answer
from trainer.engines.sampler import SampledResponse, SamplingParams, TokenListener
from trainer.journal.branches import Advanced, CompareThoughts, FindValue
from trainer.loops.recorded_attempts import find_attempt
from trainer.policy.chat_format import ANSWER, ANSWER_END, THINK, ChatFormat

MOVE = re.compile(r"\bPush (Up|Down|Left|Right)\b")
STATE = re.compile(r"Turn \d+:\n(.*?)\nActions left", re.DOTALL)


class Constructed:
    """A `Sampler` whose answers are a function of what it reads and of the row's seed.

    Args:
        chat: writes the answers in the tokens of the policy.
        choose: returns the actions for the new part of the dialogue, the thought at its end, and the seed.
    """

    def __init__(self, chat: ChatFormat, choose) -> None:
        self.chat, self.choose = chat, choose

    def session(
        self, seeds: Sequence[int], params: SamplingParams, listener: TokenListener | None = None
    ) -> ConstructedSession:
        return ConstructedSession(self, seeds)

    def weights_updated(self, version: int = 0) -> None:
        """No-op: it has no weights."""

    def sleep(self) -> None:
        """No-op."""

    def wake_up(self) -> None:
        """No-op."""

    def close(self) -> None:
        """No-op."""


class ConstructedSession:
    """See `trainer.engines.sampler.SamplingSession`."""

    def __init__(self, sampler: Constructed, seeds: Sequence[int]) -> None:
        self.sampler, self.seeds = sampler, seeds
        self.appended: dict[int, list[int]] = {}

    def reset_row(self, row: int) -> None:
        """No-op: it remembers nothing."""

    def append(self, row: int, ids: list[int]) -> None:
        self.appended[row] = ids

    def generate(self, prompts: Mapping[int, list[int]]) -> Iterator[tuple[int, SampledResponse]]:
        waiting = dict(prompts)
        while waiting:
            for row, ids in waiting.items():
                yield row, self._respond(row, ids)
            waiting, self.appended = self.appended, {}

    def _respond(self, row: int, ids: list[int]) -> SampledResponse:
        chat = self.sampler.chat
        prompt = chat.tokenizer.decode(ids)
        thought = prompt.rpartition(THINK)[2]
        begun = thought.endswith(ANSWER)
        action = self.sampler.choose(prompt, thought.partition("</think>")[0], self.seeds[row])
        text = f"{action}{ANSWER_END}" if begun else f"so</think>{ANSWER}{action}{ANSWER_END}"
        written = [*chat.tokenizer.encode(text, add_special_tokens=False), chat.eos_id]
        return SampledResponse(written, [-1.0] * len(written), [0.0] * len(written), ended=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of the pocket policy, whose thoughts name the push that it plans."""
    return record(tmp_path_factory.mktemp("thoughts"), prompts=6)


def ask(folder: Path, choose, samples: int = 8):
    """The influence of the thoughts of the first attempt on a constructed policy."""
    policy = load(folder).policy
    player = BranchPlayer(policy, Weights(folder, 0), make=lambda config, chat: Constructed(chat, choose))
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


def best_actions(room: str) -> str:
    """Up to three actions of the solver, or any where nothing helps."""
    env = envs.make("Sokoban")
    env.reset(seed=0, options={"room": room})
    actions: list[str] = []
    while len(actions) < 3:
        actions.append((env.hint().actions or ["Up"])[0])
        if env.step(actions[-1])[2]:
            break
    return " || ".join(actions)


def test_the_value_of_best_play_falls_at_the_fatal_turn(tmp_path):
    """A policy that plays the solver's advice wins where it can be won, so that the fall is the fatal move."""
    budgets = {"max_turns": 12, "max_actions": 36, "max_actions_per_turn": 3}
    folder = record(tmp_path, prompts=12, temperature=1.0, rollout=budgets)
    player = BranchPlayer(load(folder).policy, Weights(folder, 0), make=lambda config, chat: Constructed(chat, solved))

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
