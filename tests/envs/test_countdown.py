"""Countdown: solvable problems, rewards, advice, and problems from files."""

import json
import os
import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from envs.countdown import MAX_NUMBERS, Countdown, Problem, read_problems
from envs.support.arithmetic import signs_reach
from envs.support.json_records import RecordsError


def make_problem(nums, target):
    env = Countdown()
    env.reset(options={"nums": nums, "target": target})
    return env


@pytest.mark.parametrize("operators", ["+-", "+-*", "+-*/"])
def test_every_generated_problem_fits_the_settings_and_its_hint_solves_it(operators):
    env = Countdown(operators=operators)
    kind = env.settings
    for seed in range(300):
        env.reset(seed=seed)
        problem, hint = env.problem, env.hint()
        assert kind.min_numbers <= len(problem.numbers) <= kind.max_numbers
        assert all(kind.smallest <= number <= kind.largest for number in problem.numbers)
        assert kind.min_target <= problem.target <= kind.max_target
        assert (hint.solvable, hint.distance, hint.value) == ("yes", 1, 1.0)
        assert set(hint.actions[0]) <= set("0123456789() ") | set(operators)
        if operators == "+-":
            assert signs_reach(problem.numbers, problem.target)
        _, reward, terminated, _, info = env.step(hint.actions[0])
        assert (reward, terminated, info["success"], info["effective"]) == (1.0, True, True, True)


def test_problems_from_a_seed_never_change():
    env = Countdown()
    assert [env.reset(seed=seed)[0] for seed in range(4)] == [
        "Target: 15, nums: [9, 44, 38, 1]",
        "Target: 31, nums: [3, 30, 21]",
        "Target: 11, nums: [5, 26, 6, 27]",
        "Target: 59, nums: [77, 50, 86]",
    ]


def test_problems_differ_in_everything_random():
    env = Countdown()
    problems = []
    for seed in range(500):
        env.reset(seed=seed)
        problems.append(env.problem)
    assert len(set(problems)) > 490
    assert {len(problem.numbers) for problem in problems} == {3, 4}
    assert len({problem.target for problem in problems}) > 80
    assert (
        sum("*" in str(problem.solution("+-*/")) or "/" in str(problem.solution("+-*/")) for problem in problems) > 50
    )


@given(
    numbers=st.tuples(st.integers(2, MAX_NUMBERS), st.integers(2, MAX_NUMBERS)).map(sorted),
    drawn=st.tuples(st.integers(1, 60), st.integers(1, 60)).map(sorted),
    target=st.integers(0, 40),
    operators=st.sampled_from(["+-", "+-*", "+-*/"]),
    seed=st.integers(0, 2**63),
)
def test_problems_are_solvable_or_the_settings_are_rejected_as_impossible(numbers, drawn, target, operators, seed):
    env = Countdown(
        min_numbers=numbers[0],
        max_numbers=numbers[1],
        smallest=drawn[0],
        largest=drawn[1],
        min_target=0,
        max_target=target,
        operators=operators,
    )
    try:
        env.reset(seed=seed)
    except ValueError as error:
        if "widen the range" not in str(error):
            raise
        return
    assert env.step(env.hint().actions[0])[1] == 1.0


def test_impossible_settings_are_refused():
    for bad in (
        {"min_numbers": 4, "max_numbers": 3},
        {"smallest": 9, "largest": 8},
        {"min_target": 9, "max_target": 8},
    ):
        with pytest.raises(ValidationError, match="is above"):
            Countdown(**bad)
    with pytest.raises(ValidationError, match="no 4 numbers up to 99 make 400: lower min_target"):
        Countdown(operators="+-", min_target=400, max_target=500)
    env = Countdown(smallest=50, largest=50, min_numbers=2, max_numbers=2, min_target=7, max_target=9)
    with pytest.raises(ValueError, match=r"no problem with a target from 7 to 9 .* widen the range"):
        env.reset(seed=1)


@pytest.mark.parametrize(
    ("nums", "target", "answer", "reward"),
    [
        ([3, 5, 2], 4, "2 + 5 - 3", 1.0),
        ([3, 5, 2], 4, " ( 5+2 )-3\t", 1.0),
        ([3, 5, 2], 4, "3 + 5 - 2", 0.1),
        ([3, 5, 2], 4, "3 5 2", 0.1),
        ([3, 5, 2], 4, "2 + 5 - 3 = 4", 0.0),
        ([3, 5, 2], 4, "2 + 5", 0.0),
        ([3, 5, 2], 4, "2 + 5 - 3 + 3", 0.0),
        ([3, 3, 2], 4, "3 + 3 - 2", 1.0),
        ([3, 3, 2], 4, "3 + 2", 0.0),
        ([5, 0], 5, "5 / 0", 0.1),
        ([9, 9, 9], 5, "9 ** 9 ** 9", 0.1),
        ([2, 3], 8, "2 ** 3", 1.0),
        ([1, 1, 3], 3, "1 / 3 * 3 * 3", 0.0),
        ([3, 1, 3], 1, "1 / 3 * 3", 1.0),
        ([8, 2], 4, "08 / 2", 0.1),
        ([8, 2], 4, "int('8') / 2", 0.1),
        ([8, 2], 4, "8 ÷ 2", 0.1),
        ([8, 2], 4, "9" * 5000, 0.0),
        ([8, 2], 4, "8 / 2" + " " * 5000, 0.1),
        ([8, 2], 4, "(" * 3000 + "8 / 2" + ")" * 3000, 0.1),
        ([3, 2], 4, "٣ + 2", 0.1),
    ],
)
def test_rewards_of_target_numbers_and_other_answers(nums, target, answer, reward):
    env = make_problem(nums, target)
    text, paid, terminated, truncated, info = env.step(answer)
    assert (paid, terminated, truncated) == (reward, True, False)
    assert text == f"Your answer get {reward:g} points."
    assert (info["success"], info["effective"], info["valid"]) == (reward == 1, reward > 0, True)
    assert answer[:80] in env.board().text


@given(st.one_of(st.text(), st.text("0123456789+-*/() ", max_size=30), st.text("352+-*/() ", max_size=9)))
def test_any_text_is_an_answer_with_one_of_three_rewards(answer):
    env = make_problem([3, 5, 2], 4)
    _, reward, terminated, _, _ = env.step(answer)
    assert reward in (0.0, 0.1, 1.0)
    assert terminated
    assert len(env.board().text) < 400


def test_every_combination_of_signs_and_order_is_rewarded_by_its_value():
    problem = Problem((3, 5, 2), 4)
    for signs in product("+-", repeat=2):
        value = 3 + (5 if signs[0] == "+" else -5) + (2 if signs[1] == "+" else -2)
        assert problem.reward(f"3 {signs[0]} 5 {signs[1]} 2") == (1.0 if value == 4 else 0.1)


def test_the_advice_reports_a_lost_problem():
    env = make_problem([8, 2], 7)
    hint = env.hint()
    assert (hint.solvable, hint.value, hint.reason) == ("no", 0.1, "no equation of these numbers equals the target")
    assert env.step(hint.actions[0])[1] == 0.1
    lost = env.hint()
    assert (lost.solvable, lost.actions, lost.reason) == ("no", [], "the answer does not equal the target")
    won = make_problem([8, 2], 4)
    won.step("8 / 2")
    assert (won.hint().solvable, won.hint().distance, won.hint().actions) == ("yes", 0, [])


def test_the_board_shows_target_numbers_and_verdict():
    env = make_problem([3, 5, 2], 4)
    assert env.board().text == "Target  4\nNumbers 3 5 2"
    for answer, verdict in (
        ("3 + 5 - 2", "3 + 5 - 2 = 6"),
        ("3 / 5 / 2", "3 / 5 / 2 = 3/10"),
        ("4", "4: not these numbers, each once"),
        ("2+5-3)", "2+5-3): ')' follows the end of the expression"),
        ("2 ** (5 ** 3)", "2 ** (5 ** 3) = a long number"),
    ):
        env = make_problem([3, 5, 2], 4)
        env.step(answer)
        assert env.board().text.split("\n")[-1] == verdict


@pytest.fixture
def file(tmp_path):
    return tmp_path / "problems.jsonl"


def test_all_problems_of_a_file_are_used(file):
    file.write_text('{"nums": [3, 5, 2], "target": 4}\n{"nums": [25, 4, 10], "target": 90, "more": 1}\n')
    env = Countdown(path=str(file))
    assert {env.reset(seed=seed)[0] for seed in range(20)} == {
        "Target: 4, nums: [3, 5, 2]",
        "Target: 90, nums: [25, 4, 10]",
    }
    assert env.reset(seed=5) == Countdown(path=str(file)).reset(seed=5)


def test_problems_of_a_file_without_solution_are_skipped(file):
    file.write_text(json.dumps([{"nums": [8, 2], "target": target} for target in (4, 6, 7)]))
    for operators, targets in (("+-", {6}), ("+-*/", {4, 6})):
        env = Countdown(path=str(file), operators=operators)
        found = set()
        for seed in range(40):
            env.reset(seed=seed)
            found.add(env.problem.target)
        assert found == targets
    file.write_text('{"nums": [8, 2], "target": 7}')
    for operators, tries in (("+-", 10_000), ("+-*/", 100)):
        with pytest.raises(
            RecordsError, match=rf"problems\.jsonl: {tries} problems .* no solution with {re.escape(operators)}: "
        ):
            Countdown(path=str(file), operators=operators).reset(seed=0)


def test_a_file_is_read_once_until_it_changes(file):
    file.write_text('{"nums": [1, 2], "target": 3}')
    first = read_problems(file)
    assert read_problems(file) is first
    file.write_text('{"nums": [1, 2], "target": 1}')
    os.utime(file, ns=(1, 1))
    assert read_problems(file) == (Problem((1, 2), 1),)


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        ({}, "nums must be a list of 1 to 6 whole numbers"),
        ({"nums": [], "target": 1}, "nums must be a list"),
        ({"nums": [1] * 7, "target": 1}, "nums must be a list"),
        ({"nums": [1, "2"], "target": 1}, "each of nums must be a whole number from 0"),
        ({"nums": [1, -2], "target": 1}, "each of nums"),
        ({"nums": [1, True], "target": 1}, "each of nums"),
        ({"nums": [1, 2.0], "target": 1}, "each of nums"),
        ({"nums": [1, 10**7], "target": 1}, "each of nums"),
        ({"nums": [1, 2]}, "target must be a whole number"),
        ({"nums": [1, 2], "target": 10**7}, "target must be a whole number"),
    ],
)
def test_a_bad_record_is_named_with_its_line(file, record, complaint):
    file.write_text('{"nums": [1, 2], "target": 3}\n' + json.dumps(record) + "\n")
    with pytest.raises(RecordsError, match=rf"problems\.jsonl, line 2: {complaint}"):
        Countdown(path=str(file)).reset(seed=0)


def test_an_empty_or_missing_file_is_an_error_with_advice(file):
    with pytest.raises(RecordsError, match="give the path of an existing file"):
        Countdown(path=str(file)).reset(seed=0)
    file.write_text("\n")
    with pytest.raises(RecordsError, match="contains no problem; write one per line"):
        Countdown(path=str(file)).reset(seed=0)
