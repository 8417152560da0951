"""Prompts: opening message of a dialogue and messages of its turns."""

import re

import pytest

import envs
from envs.demonstrators import DEMONSTRATORS, example_turns
from envs.registry import BUILT_IN
from tests.trainer import tiny
from trainer.config.files import load_preset
from trainer.config.run import EnvironmentConfig, RolloutConfig, RunConfig
from trainer.evaluation.suites import get_suites
from trainer.policy.chat_format import ChatFormat
from trainer.rollout.prompts import example_text, opening_message, repeated_line, state_message
from trainer.rollout.response_parser import ACTION_SEPARATOR, parse_response


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


ROLLOUT = RolloutConfig(think=False, max_actions_per_turn=1)


def test_the_task_wording_is_configurable_and_the_thought_optional():
    text = opening_message(envs.spec("Bandit"), ROLLOUT, EnvironmentConfig(name="Bandit", instruction="Choose well."))
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


WITH_PAPER = {
    "Sokoban",
    "LargeSokoban",
    "SokobanNewVocab",
    "Boxoban",
    "FrozenLake",
    "Bandit",
    "BanditRev",
    "BanditTest",
}


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_paper_wording_replaces_that_of_environments_which_the_paper_has(name):
    spec = envs.spec(name)
    own, paper = (opening_message(spec, RolloutConfig(format_line=line)) for line in ("words", "paper"))
    assert own.startswith(spec.instruction)
    assert bool(spec.paper_instruction) == (name in WITH_PAPER)
    assert paper.startswith(spec.paper_instruction if name in WITH_PAPER else spec.instruction)


def test_the_paper_wording_of_the_bandit_names_the_arms_in_order_and_not_their_pay():
    env = envs.make("BanditTest")
    orders = set()
    for seed in range(20):
        env.reset(seed=seed)
        first, second = env.env_spec.actions
        orders.add((first, second))
        text = env.env_spec.paper_instruction
        assert f"two arms, {first} and {second}." in text
        assert text.endswith(f"<answer>{first}</answer> or <answer>{second}</answer>.")
        assert not re.search("sure|rare|little|risk|certain|\\d", text)
    assert orders == {("Librarian", "Trader"), ("Trader", "Librarian")}


def test_the_paper_wording_of_the_lake_fits_its_ice_and_the_format_of_answers():
    slippery, firm = (envs.make("FrozenLake", {"slippery": value}).env_spec for value in (True, False))
    assert "slippery" in slippery.paper_instruction
    assert "slippery" not in firm.paper_instruction
    assert "<think>To stay" in opening_message(slippery, RolloutConfig(format_line="paper"))
    without = opening_message(slippery, RolloutConfig(format_line="paper", think=False))
    assert "<think>" not in without
    assert "Example of an answer: <answer>Left || Up</answer>" in without


def test_a_turn_after_a_broken_format_shows_the_reward_of_the_environment_alone():
    chat = ChatFormat(tiny.styles()["pocket"], think=True)
    config = RunConfig.model_validate({"rewards": {"format_penalty": -0.5, "terms": {"thought_present": 0.25}}})
    episode = tiny.episode(chat, config, seed=0, options={"room": "######\n#____#\n#_PX_#\n#___O#\n#____#\n######"})
    episode.prompt()
    turn = episode.receive(tiny.sampled(chat, "a thought of mine</think><answer>Up || Fly</answer>"))
    assert turn.terms == pytest.approx({"environment": -0.1, "format": -0.5, "thought_present": 0.25})
    assert turn.reward == pytest.approx(-0.35)
    assert episode.state.startswith("Reward: -0.1\nTurn 2:\n")


@pytest.mark.parametrize("suite", [0, 1])
def test_bandit_paper_presets_read_the_paper_wording_in_every_suite(suite):
    config = get_suites(load_preset("bandit-starpo-paper"))[suite].config
    env = envs.make(config.environment.name)
    assert opening_message(env.env_spec, config.rollout, config.environment).startswith("This is a game with a bandit")


NAMES = [name for name in BUILT_IN if not envs.needs_variant(name)]


def config_of(name: str, *, line: str, think: bool = True, **environment: object) -> RunConfig:
    rollout = {"format_line": line, "think": think, "max_response_tokens": 77}
    return RunConfig.model_validate({"environment": {"name": name, **environment}, "rollout": rollout})


@pytest.mark.parametrize("think", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_every_format_explains_tags_and_limits_without_words_that_are_no_action(name, think):
    spec = envs.spec(name)
    for line in ("words", "example", "paper"):
        config = config_of(name, line=line, think=think)
        task = opening_message(spec, config.rollout, config.environment)
        state = state_message(
            "board", turn=1, actions_left=3, last_reward=0.5, format_line=repeated_line(config.rollout)
        )
        read = task + state
        assert "<answer>" in read
        assert ("<think>" in read) == think
        assert "at most 77 tokens" in read
        assert "<think>thought" not in read
        assert ">action" not in read
        assert ("[your answer]" in state) == (line == "paper")
        assert (ACTION_SEPARATOR in read) == (config.rollout.max_actions_per_turn > 1)


@pytest.mark.parametrize("name", sorted(set(DEMONSTRATORS) & set(NAMES)))
def test_an_example_is_a_valid_answer_to_a_puzzle_that_no_run_plays(name):
    config = config_of(name, line="example")
    spec, limit = envs.spec(name), config.rollout.max_actions_per_turn
    examples = example_turns(name, {}, limit)
    assert examples == example_turns(name, {}, limit)
    text = opening_message(spec, config.rollout, config.environment)
    for example in examples:
        written = example_text(example, think=True)
        assert written in text
        parsed = parse_response(written.removeprefix("<think>"), think=True, max_actions=limit)
        assert parsed.structured
        assert parsed.thought == example.thought
        assert 1 <= len(parsed.actions) <= min(limit, 2)
        assert not spec.actions or set(parsed.actions) <= set(spec.actions)


def test_the_examples_of_a_bandit_leave_open_which_arm_pays():
    bandit, reversed_bandit = (example_turns(name, {}, 1) for name in ("Bandit", "BanditRev"))
    assert [turn.actions for turn in bandit] == [["Dragon"], ["Phoenix"]]
    assert sorted(turn.thought for turn in bandit) == sorted(turn.thought for turn in reversed_bandit)


def test_the_prompts_of_the_pocket_policy_are_those_of_its_warm_up():
    pocket = RunConfig().with_prompts(pocket=True)
    for name in NAMES:
        spec = envs.spec(name)
        text = opening_message(spec, pocket.rollout, pocket.environment)
        assert text == opening_message(spec, RolloutConfig())
        assert "Answer: <think>thought</think><answer>" in text
    assert (pocket.environment.cells, pocket.rollout.stops_at_answer) == ("compact", False)


def test_other_policies_get_an_example():
    chosen = RunConfig().with_prompts(pocket=False)
    assert (chosen.rollout.format_line, chosen.rollout.stops_at_answer) == ("example", True)
    assert chosen.environment.cells == "spaced"
    assert chosen.with_prompts(pocket=True) is chosen


@pytest.mark.parametrize(
    ("name", "first_line"), [("FrozenLake", "_ _ O _"), ("Sokoban", "# # # # # #"), ("Game2048", ". . . .")]
)
def test_spaced_cells_change_the_text_and_not_the_board(name, first_line):
    chat = ChatFormat(tiny.styles()["chatml"], think=True)
    compact, spaced = (
        tiny.episode(chat, RunConfig.model_validate({"environment": {"name": name, "cells": cells}}), seed=5)
        for cells in ("compact", "spaced")
    )
    assert spaced.state.split("\n")[1] == first_line
    assert spaced.state.replace(" ", "") == compact.state.replace(" ", "")
    assert spaced.board == compact.board


@pytest.mark.parametrize(
    ("name", "places"),
    [("FrozenLake", "P 3,2. O 1,3 4,1. G 2,3."), ("Sokoban", "O 3,5. X 4,5. P 2,4."), ("Countdown", None)],
)
def test_located_cells_list_the_things_on_the_grid(name, places):
    chat = ChatFormat(tiny.styles()["chatml"], think=True)
    spaced, located = (
        tiny.episode(chat, RunConfig.model_validate({"environment": {"name": name, "cells": cells}}), seed=5)
        for cells in ("spaced", "located")
    )
    added = [line for line in located.state.split("\n") if line not in spaced.state.split("\n")]
    assert added == ([] if places is None else [places])


def test_the_line_of_the_paper_is_repeated_at_each_turn():
    chat = ChatFormat(tiny.styles()["chatml"], think=True)
    episode = tiny.episode(chat, config_of("Sokoban", line="paper"), seed=0)
    assert "[Your thoughts]" not in episode.task
    for _ in range(2):
        assert "<think> [Your thoughts] </think> <answer> [your answer] </answer>" in episode.state
        episode.prompt()
        episode.receive(tiny.sampled(chat, "I wait.</think><answer>Up</answer>"))
