"""Courses of the warm-up: true thoughts, plans that succeed as often as they should, drawn settings."""

from __future__ import annotations

import re

import numpy as np
import pytest

import envs
from envs.base import GridBoard
from trainer.config.run import RolloutConfig, RunConfig
from trainer.imitation.course_plans import careful_direction
from trainer.imitation.courses import COUNTDOWN, COURSES
from trainer.imitation.demonstrations import Demonstration, demonstrate, single_turn
from trainer.imitation.demonstrators import cells_of, grid_of
from trainer.policy.chat_format import ChatFormat

SINGLE = [name for name, course in COURSES.items() if course.demonstrator]


def demonstrated(course_name: str, chat: ChatFormat, seed: int) -> Demonstration:
    course = COURSES[course_name]
    ((config, _),) = course.tasks(RolloutConfig())
    return demonstrate(
        course.varied(config, seed),
        chat,
        seed,
        noise=0.0,
        mistake_rate=0.0,
        context=8192,
        demonstrator=course.demonstrator_for(seed),
    )


def success(course: str, chat: ChatFormat, episodes: int = 200) -> float:
    return float(np.mean([demonstrated(course, chat, seed).trajectory.success for seed in range(episodes)]))


@pytest.mark.parametrize("course", SINGLE)
def test_a_demonstration_depends_on_its_seed_alone(course: str, chat: ChatFormat) -> None:
    assert demonstrated(course, chat, 5).trajectory.ids == demonstrated(course, chat, 5).trajectory.ids
    assert len({tuple(demonstrated(course, chat, seed).trajectory.ids) for seed in range(8)}) > 4


def test_a_turn_alone_is_what_the_policy_reads_and_writes_in_it(chat: ChatFormat) -> None:
    dialogue = demonstrated("webshop", chat, 3)
    assert len(dialogue.taught) > 2
    for turn in dialogue.taught:
        alone = single_turn(dialogue, turn)
        assert alone.taught == {0}
        assert alone.trajectory.response(0) == dialogue.trajectory.response(turn)
        prompt = dialogue.trajectory.prompts.get(turn)
        length = alone.trajectory.sampled.index(True)
        assert prompt is None or alone.trajectory.ids[:length] == prompt
        assert chat.decode(alone.trajectory.ids[:length]).count("<|im_start|>user") == 1


def test_careful_walks_come_near_the_best_play(chat: ChatFormat) -> None:
    assert 0.38 < success("frozen_lake", chat) < 0.58


def test_thoughts_about_ice_are_true(chat: ChatFormat) -> None:
    env = envs.make("FrozenLake")
    plan = COURSES["frozen_lake"].demonstrator_for(0)
    assert plan is not None
    for seed in range(30):
        env.reset(seed=seed)
        board = grid_of(env)
        (row, column), (goal,) = cells_of(board, "@+X")[0], cells_of(board, "G+")
        thought = plan.plan(env, 2).thought
        assert f"I am at {row + 1},{column + 1}. Goal {goal[0] + 1},{goal[1] + 1}." in thought
        for direction, (down, right) in {"Left": (0, -1), "Up": (-1, 0)}.items():
            inside = row + down >= 0 and column + right >= 0
            symbol = board.rows[row + down][column + right] if inside else ""
            name = "edge" if not inside else {"O": "hole", "G": "goal"}.get(symbol, "ice")
            assert f" {direction} {name}." in thought


def test_the_careful_direction_avoids_holes_before_it_seeks_the_goal() -> None:
    open_ice = GridBoard(theme="frozen_lake", rows=["    ", " @  ", "    ", "   G"])
    assert careful_direction(open_ice, (1, 1), (3, 3)) in ("Down", "Right")
    hole_below = GridBoard(theme="frozen_lake", rows=["    ", " @  ", " O  ", "   G"])
    assert careful_direction(hole_below, (1, 1), (3, 3)) == "Up", "no other direction can never slip into the hole"


def test_both_arms_are_pulled_equally_often_and_names_vary(chat: ChatFormat) -> None:
    assert success("bandit", chat, 300) == pytest.approx(0.5, abs=0.1)
    course = COURSES["bandit"]
    ((config, _),) = course.tasks(RolloutConfig())
    settings = [course.varied(config, seed).environment.settings for seed in range(60)]
    assert sum(not own for own in settings) == pytest.approx(30, abs=15)
    assert len({own.get("low_name") for own in settings}) > 20


def test_every_step_of_a_search_is_right_and_it_ends_with_the_answer(chat: ChatFormat) -> None:
    env = envs.make("Countdown", COUNTDOWN)
    solved = 0
    for seed in range(100):
        env.reset(seed=seed)
        player = COURSES["countdown"].demonstrator_for(seed)
        assert player is not None
        plan = player.plan(env, 1)
        target, steps = plan.thought.split("? ", 1)
        tried = [re.findall(r"-?\d+|yes|no", text) for text in steps.rstrip(".").split(". ")]
        for first, change, partial_sum, other, total, verdict in tried:
            assert int(first) + int(change) == int(partial_sum)
            assert int(partial_sum) + int(other) == int(total)
            assert verdict == ("yes" if total == target else "no")
        _, reward, _, _, info = env.step(plan.actions[0])
        assert info["success"] == (tried[-1][-1] == "yes")
        assert float(reward) > 0
        solved += info["success"]
    assert solved > 90


def test_a_course_without_drawn_settings_leaves_them() -> None:
    ((config, _),) = COURSES["countdown"].tasks(RolloutConfig())
    assert isinstance(config, RunConfig)
    assert COURSES["countdown"].varied(config, 1) is config


def test_purchases_follow_what_the_pages_show(chat: ChatFormat) -> None:
    demonstrations = [demonstrated("webshop", chat, seed) for seed in range(60)]
    assert 0.2 < np.mean([each.trajectory.success for each in demonstrations]) < 0.6
    assert np.mean([each.trajectory.total_reward for each in demonstrations]) > 0.7
    for each in demonstrations:
        answers = [turn.answer for turn in each.trajectory.turns]
        assert answers[0].startswith("search[")
        assert answers[-1] == "click[buy now]"
        assert all(
            answer in turn.state.lower() for answer, turn in zip(answers[1:], each.trajectory.turns[1:], strict=True)
        )
