"""Courses of the warm-up: true thoughts, plans that succeed as often as they should, drawn settings."""

from __future__ import annotations

import re

import numpy as np
import pytest

import envs
from envs.base import GridBoard, Hint
from envs.demonstrators import find_cells, get_grid
from trainer.config.run import POCKET, RolloutConfig, RunConfig
from trainer.imitation.course_plans import (
    LAKE_STRATEGIES,
    careful_direction,
    plan_calculation,
    plan_expression_search,
    plan_shopping,
    plan_walk,
    risks,
    shortest_direction,
)
from trainer.imitation.courses import COUNTDOWN, COURSES, get_expert
from trainer.imitation.demonstrations import Demonstration, demonstrate, single_turn
from trainer.policy.chat_format import ChatFormat

QWEN = "Qwen/Qwen2.5-0.5B-Instruct"


def demonstrated(course_name: str, chat: ChatFormat, seed: int) -> Demonstration:
    course = COURSES[course_name]
    (config, _), *_ = course.tasks(RolloutConfig())
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


def imitated(course_name: str, chat: ChatFormat, seed: int, model: str = POCKET) -> Demonstration:
    """The demonstration of an SFT run."""
    (config, _), *_ = COURSES[course_name].tasks(RolloutConfig())
    policy, warmup = {"model": model}, {"course": course_name}
    config = RunConfig.model_validate(config.model_dump() | {"kind": "sft", "policy": policy, "warmup": warmup})
    expert = get_expert(config, seed)
    return demonstrate(config, chat, seed, noise=0.0, mistake_rate=0.0, context=8192, demonstrator=expert)


def response(demonstration: Demonstration, chat: ChatFormat) -> str:
    return chat.tokenizer.decode(demonstration.trajectory.response(0))


@pytest.mark.parametrize(
    ("course", "best", "least"),
    [
        ("frozen_lake", r"Safest of \d \d \d \d: ", 0.38),
        ("bandit", r"I take ", 0.55),
        ("countdown", r"(yes|no)\.", 0.95),
        ("webshop", r"I search for it", 0.2),
        ("calculator", r"I calculate it", 0.99),
    ],
)
def test_sft_imitates_the_best_strategy_in_the_words_of_the_course(
    course: str, best: str, least: float, chat: ChatFormat
) -> None:
    shown = [imitated(course, chat, seed) for seed in range(100)]
    assert np.mean([each.trajectory.success for each in shown]) >= least
    assert all(re.search(best, response(each, chat)) for each in shown)


def test_other_policies_imitate_each_environment_s_own_demonstrator(chat: ChatFormat) -> None:
    lake = RunConfig.model_validate({"environment": {"name": "FrozenLake"}, "warmup": {"course": "frozen_lake"}})
    assert get_expert(lake, 0) is not None
    assert get_expert(RunConfig.model_validate(lake.model_dump() | {"policy": {"model": QWEN}}), 0) is None
    assert get_expert(RunConfig.model_validate(lake.model_dump() | {"environment": {"name": "Sokoban"}}), 0) is None
    assert "Go " in response(imitated("frozen_lake", chat, 0, QWEN), chat)


def test_the_general_course_names_a_push_and_leaves_out_the_way(chat: ChatFormat) -> None:
    terse, whole = (response(imitated("general", chat, 0, model), chat) for model in (POCKET, QWEN))
    assert terse.count(" to ") == 1, terse
    assert "Push Down from" in terse
    assert whole.count(" to ") > 2, whole


@pytest.mark.parametrize("course", COURSES)
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


def crossed(strategy: str, lakes: int = 300) -> float:
    """Share of lakes that a strategy crosses within ten actions."""
    successes = 0
    for seed in range(lakes):
        env, rng = envs.make("FrozenLake"), np.random.default_rng(seed)
        env.reset(seed=seed)
        for _ in range(10):
            _, _, ended, _, info = env.step(plan_walk(env, 1, rng=rng, strategies={strategy: 1.0}).actions[0])
            if ended:
                successes += info["success"]
                break
    return successes / lakes


def test_the_safest_walks_come_near_the_best_play_and_the_others_do_not() -> None:
    safest, shortest, anywhere = (crossed(strategy) for strategy in LAKE_STRATEGIES)
    assert 0.38 < safest < 0.56  # the best play: 0.51
    assert safest - shortest > 0.05
    assert shortest - anywhere > 0.05


def test_the_strategies_are_drawn_as_often_as_stated() -> None:
    assert sum(LAKE_STRATEGIES.values()) == pytest.approx(1)
    env, rng = envs.make("FrozenLake"), np.random.default_rng(0)
    env.reset(seed=0)
    drawn = [plan_walk(env, 1, rng=rng).thought.rsplit(". ", 1)[1].split()[0].rstrip(":") for _ in range(2000)]
    for strategy, share in LAKE_STRATEGIES.items():
        assert drawn.count(strategy) / len(drawn) == pytest.approx(share, abs=0.04)


def test_thoughts_about_ice_are_true(chat: ChatFormat) -> None:
    env = envs.make("FrozenLake")
    plan = COURSES["frozen_lake"].demonstrator_for(0)
    assert plan is not None
    for seed in range(30):
        env.reset(seed=seed)
        board = get_grid(env)
        (row, column), (goal,) = find_cells(board, "@+X")[0], find_cells(board, "G+")
        thought = plan.plan(env, 1).thought
        assert f"I am at {row + 1},{column + 1}. Goal {goal[0] + 1},{goal[1] + 1}." in thought
        for direction, (down, right) in {"Left": (0, -1), "Up": (-1, 0)}.items():
            inside = row + down >= 0 and column + right >= 0
            symbol = board.rows[row + down][column + right] if inside else ""
            assert f" {direction} {symbol.replace(' ', '_') if inside else 'edge'}." in thought
        if "Safest" in thought:
            assert f"Safest of {' '.join(map(str, risks(board, (row, column))))}: " in thought


def test_risks_count_the_holes_that_a_direction_may_lead_to() -> None:
    board = GridBoard(theme="frozen_lake", rows=["    ", "O@  ", " O  ", "   G"])
    assert risks(board, (1, 1)) == [2, 2, 1, 1], "left, down, right, up; the opposite direction is never taken"


def test_the_careful_direction_avoids_holes_before_it_seeks_the_goal() -> None:
    open_ice = GridBoard(theme="frozen_lake", rows=["    ", " @  ", "    ", "   G"])
    assert careful_direction(open_ice, (1, 1), (3, 3)) in ("Down", "Right")
    hole_below = GridBoard(theme="frozen_lake", rows=["    ", " @  ", " O  ", "   G"])
    assert careful_direction(hole_below, (1, 1), (3, 3)) == "Up", "no other direction can never slip into the hole"


def test_the_shortest_way_looks_at_the_goal_alone() -> None:
    assert shortest_direction((3, 3), (0, 2)) == "Up"
    assert shortest_direction((0, 0), (3, 2)) == "Down"
    assert shortest_direction((2, 0), (2, 3)) == "Right"
    assert shortest_direction((1, 3), (2, 0)) == "Left"


def test_both_arms_are_pulled_equally_often_and_names_vary(chat: ChatFormat) -> None:
    assert success("bandit", chat, 300) == pytest.approx(0.5, abs=0.1)
    course = COURSES["bandit"]
    ((config, _),) = course.tasks(RolloutConfig())
    settings = [course.varied(config, seed).environment.settings for seed in range(60)]
    assert sum(not own for own in settings) == pytest.approx(30, abs=15)
    assert len({own.get("low_name") for own in settings}) > 20


def searched(seed: int, patience: float) -> tuple[list[tuple[str, ...]], bool]:
    """The sums that a search tries, and whether its answer solves the problem."""
    env = envs.make("Countdown", COUNTDOWN)
    env.reset(seed=seed)
    plan = plan_expression_search(env, 1, rng=np.random.default_rng(seed), patience=patience)
    target, steps = plan.thought.split("? ", 1)
    tried = [re.findall(r"-?\d+|yes|no", text) for text in steps.rstrip(".").split(". ")]
    for first, change, partial_sum, other, total, verdict in tried:
        assert int(first) + int(change) == int(partial_sum)
        assert int(partial_sum) + int(other) == int(total)
        assert verdict == ("yes" if total == target else "no")
    _, reward, _, _, info = env.step(plan.actions[0])
    assert info["success"] == (tried[-1][-1] == "yes")
    assert float(reward) > 0
    return [tuple(each) for each in tried], info["success"]


def test_every_step_of_a_search_is_right_and_it_ends_with_the_answer() -> None:
    patient = [searched(seed, 1.0) for seed in range(100)]
    assert sum(solved for _, solved in patient) > 90
    assert all(len(set(tried)) == len(tried) for tried, _ in patient), "no sum is tried twice"
    assert max(len(tried) for tried, _ in patient) > 3


def test_a_search_gives_up_early_unless_it_is_patient() -> None:
    usual = [searched(seed, 0.45) for seed in range(200)]
    assert 0.2 < np.mean([solved for _, solved in usual]) < 0.55
    assert np.mean([len(tried) for tried, _ in usual]) < 2.2


def test_a_course_without_drawn_settings_leaves_them() -> None:
    ((config, _),) = COURSES["countdown"].tasks(RolloutConfig())
    assert isinstance(config, RunConfig)
    assert COURSES["countdown"].varied(config, 1) is config


def bought(seed: int, diligence: float) -> tuple[list[str], list[str], float, bool]:
    """Answers and states of one purchase, its reward, and whether it is perfect."""
    env, rng = envs.make("WebShop", {"hints": "-"}), np.random.default_rng(seed)
    env.reset(seed=seed)
    answers, states = [], []
    for _ in range(9):
        states.append(env.render())
        answers.append(plan_shopping(env, 1, rng=rng, diligence=diligence).actions[0])
        _, reward, ended, _, info = env.step(answers[-1])
        if ended:
            return answers, states, float(reward), info["success"]
    raise AssertionError("nothing was bought within nine actions")


def test_purchases_follow_what_the_pages_show_and_care_pays_off() -> None:
    careful = [bought(seed, 1.0) for seed in range(60)]
    careless = [bought(seed, 0.0) for seed in range(60)]
    assert 0.25 < np.mean([success for *_, success in careful]) < 0.6
    assert np.mean([reward for _, _, reward, _ in careful]) - np.mean([reward for _, _, reward, _ in careless]) > 0.15
    assert not any(success for *_, success in careless)
    for answers, states, *_ in [*careful, *careless]:
        assert answers[0].startswith("search[")
        assert answers[-1] == "click[buy now]"
        for answer, state in zip(answers[1:], states[1:], strict=True):
            assert answer.replace("[ ", "[") in state.lower(), "chosen options begin with the space of the request"


def shop_at(*actions: str, diligence: float = 1.0) -> tuple[str, str]:
    """Thought and answer of a shopper, a diligent one by default, after these actions."""
    env = envs.make("WebShop", {"hints": "-"})
    env.reset(seed=1)
    for action in actions:
        env.step(action)
    plan = plan_shopping(env, 1, rng=np.random.default_rng(0), diligence=diligence)
    return plan.thought, plan.actions[0]


def test_thoughts_in_the_shop_go_through_the_options_up_to_the_first_open_one() -> None:
    product = ("search[reef safe lip balms]", "click[timi]")
    assert shop_at(*product) == ("Careful: flavor cherry open. I choose flavor cherry.", "click[ cherry]")
    one = shop_at(*product, "click[ cherry]")
    assert one == ("Careful: flavor cherry chosen. size 4 pack open. I choose size 4 pack.", "click[ 4 pack]")
    both = shop_at(*product, "click[ cherry]", "click[4 pack]")
    assert both == ("Careful: flavor cherry chosen. size 4 pack chosen. All chosen.", "click[buy now]")


def test_thoughts_about_results_name_the_first_after_the_words_before_it() -> None:
    thought, answer = shop_at("search[reef safe lip balms]")
    result = answer.removeprefix("click[").removesuffix("]")
    assert thought == f"First: next >{result}."
    page = envs.make("WebShop", {"hints": "-"})
    page.reset(seed=1)
    page.step("search[reef safe lip balms]")
    assert f"next >], click[{result}]" in page.render()


def test_a_hasty_shopper_opens_any_result_and_buys_without_reading() -> None:
    thought, answer = shop_at("search[reef safe lip balms]", diligence=0.0)
    assert thought == f"Any: [{answer.removeprefix('click[').removesuffix(']')}]."
    assert shop_at("search[reef safe lip balms]", "click[timi]", diligence=0.0) == (
        "Quick: good enough.",
        "click[buy now]",
    )
    chosen = ("search[reef safe lip balms]", "click[timi]", "click[ cherry]", "click[4 pack]")
    assert shop_at(*chosen, diligence=0.0) == shop_at(*chosen), "nothing is left to skip"


def test_options_with_a_decimal_point_are_read_whole() -> None:
    env = envs.make("WebShop", {"hints": "-"})
    for seed in range(300):
        env.reset(seed=seed)
        if "size 1.7 litre" in env.render():
            break
    env.step((env.hint() or Hint()).actions[0])
    env.step((env.hint() or Hint()).actions[0])
    thoughts = []
    for _ in range(3):
        plan = plan_shopping(env, 1, rng=np.random.default_rng(0), diligence=1.0)
        thoughts.append(plan.thought)
        env.step(plan.actions[0])
    assert "I choose size 1.7 litre." in " ".join(thoughts)


def questions_answered(trust: float) -> float:
    successes = 0
    for seed in range(100):
        env, rng = envs.make("ToolCalculator"), np.random.default_rng(seed)
        env.reset(seed=seed)
        ended = False
        while not ended:
            _, _, ended, _, info = env.step(plan_calculation(env, 1, rng=rng, trust=trust).actions[0])
        successes += info["success"]
    return successes / 100


def test_calculated_answers_are_right_and_guesses_wrong() -> None:
    assert questions_answered(1.0) == 1.0
    assert questions_answered(0.0) < 0.03


def test_the_calculator_is_called_in_half_of_the_first_turns(chat: ChatFormat) -> None:
    assert 0.35 < success("calculator", chat) < 0.65


def test_pages_without_a_next_step_are_left() -> None:
    assert shop_at("search[zzzz]") == ("I go back.", "click[back to search]")
    assert shop_at("search[reef safe lip balms]", "click[timi]", "click[description]")[1] == "click[< prev]"
