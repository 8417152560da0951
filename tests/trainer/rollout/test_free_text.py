"""Environments without named actions: answers and the prompts that follow."""

import pytest

from tests.trainer import tiny
from trainer.config.run import RunConfig

PROBLEM = {"nums": [3, 5, 2], "target": 4}
QUESTION = {"question": "What is 6 times 7?", "answer": "42"}


def start(chat, name, options, **rollout):
    run = RunConfig.model_validate({"environment": {"name": name}, "rollout": {"max_actions_per_turn": 1} | rollout})
    return tiny.episode(chat, run, options=options)


def respond(episode, text):
    episode.prompt()
    return episode.receive(tiny.sampled(episode.chat, text))


def executed(turn):
    return [(action.text, action.status, action.reward) for action in turn.actions]


@pytest.mark.parametrize(
    ("answer", "reward"), [("2 + 5 - 3", 1.0), ("2 + 5 + 3", 0.1), ("4", 0.0), ("no idea", 0.0), ("2+5-3)", 0.1)]
)
def test_an_equation_is_passed_verbatim_and_ends_the_episode(chat, answer, reward):
    episode = start(chat, "Countdown", PROBLEM)
    turn = respond(episode, tiny.answer(answer))
    assert executed(turn) == [(answer, "executed", reward)]
    assert turn.terms == {"environment": reward}
    assert (turn.format_valid, turn.problem) == (True, None)
    assert (episode.trajectory.end, episode.trajectory.success) == ("terminated", reward == 1.0)


@pytest.mark.parametrize("text", [tiny.answer(""), tiny.answer(" || "), "2 + 5 - 3", "so</think>2 + 5 - 3"])
@pytest.mark.parametrize(("name", "options"), [("Countdown", PROBLEM), ("MetaMathQA", QUESTION)])
def test_an_empty_or_missing_answer_is_no_action_and_costs_the_penalty_and_a_turn(chat, name, options, text):
    episode = start(chat, name, options, max_turns=2)
    before = episode.env.render()
    turn = respond(episode, text)
    assert turn.actions == []
    assert turn.terms == {"environment": 0.0, "format": -0.1}
    assert not episode.ended
    assert episode.env.render() == before, "the environment was not stepped"
    respond(episode, text)
    assert episode.trajectory.end == "turns"


def test_the_first_of_several_answers_counts(chat):
    single = respond(start(chat, "Countdown", PROBLEM), tiny.answer("2 + 5 - 3", "4"))
    assert executed(single) == [("2 + 5 - 3", "executed", 1.0)]
    several = respond(start(chat, "Countdown", PROBLEM, max_actions_per_turn=3), tiny.answer("4", "2 + 5 - 3", "x"))
    assert executed(several) == [("4", "executed", 0.0), ("2 + 5 - 3", "ignored", 0.0), ("x", "ignored", 0.0)]


def test_tries_within_one_turn_halve_the_reward_as_well(chat):
    turn = respond(start(chat, "MetaMathQA", QUESTION, max_actions_per_turn=3), tiny.answer("41", "43", "42"))
    assert executed(turn) == [("41", "executed", 0.0), ("43", "executed", 0.0), ("42", "executed", 0.25)]


def test_after_a_wrong_answer_the_prompt_shows_question_and_verdict(chat):
    episode = start(chat, "MetaMathQA", QUESTION, max_turns=3)
    respond(episode, tiny.answer("41"))
    prompt = chat.tokenizer.decode(episode.prompt())
    assert "Reward: 0\nTurn 2:\nWhat is 6 times 7?\nIncorrect. Please think again.\nActions left: 4" in prompt
    turn = episode.receive(tiny.sampled(chat, tiny.answer(" 4 2")))
    assert turn.state.count("Incorrect. Please think again.") == 1
    assert turn.reward == 0.5
    assert (episode.trajectory.end, episode.trajectory.success) == ("terminated", True)
