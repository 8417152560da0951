"""Prompts: opening message of a dialogue and messages of its turns."""

import envs
from trainer.config.run import RolloutConfig
from trainer.rollout.prompts import opening_message, state_message


def test_the_opening_has_task_symbols_actions_format_and_limits():
    spec = envs.spec("Sokoban")
    text = opening_message(spec, RolloutConfig(max_actions_per_turn=3, max_response_tokens=77))
    assert text.startswith(spec.instruction)
    for symbol, meaning in spec.vocabulary.items():
        assert f"{symbol} {meaning}" in text
    assert ", ".join(spec.actions) in text
    assert "<think>" in text
    assert "at most 3 actions" in text
    assert "77 tokens" in text


def test_the_task_wording_is_configurable_and_the_thought_optional():
    text = opening_message(envs.spec("Bandit"), RolloutConfig(think=False, max_actions_per_turn=1), "Choose well.")
    assert text.startswith("Choose well.\n")
    assert "<think>" not in text
    assert "at most" not in text


def test_a_free_text_environment_prompts_for_an_answer():
    spec = envs.spec("MetaMathQA")
    text = opening_message(spec, RolloutConfig(max_actions_per_turn=1))
    assert "Actions:" not in text
    assert "<answer>your answer</answer>" in text
    several = opening_message(spec, RolloutConfig(max_actions_per_turn=3))
    assert "<answer>your answer || your answer</answer>, at most 3 answers" in several


def test_a_turn_shows_the_last_reward_before_the_state():
    assert state_message("board", turn=0, actions_left=10, last_reward=None) == "Turn 1:\nboard\nActions left: 10"
    message = state_message("board", turn=2, actions_left=4, last_reward=-0.1)
    assert message == "Reward: -0.1\nTurn 3:\nboard\nActions left: 4"
