"""MetaMathQA: attempts and rewards, comparison of answers, files of the public data set."""

import json
import logging
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from envs import metamathqa
from envs.metamathqa import MetaMathQA, extract_answer, read_questions, same_answer
from envs.support.json_records import RecordsError


@pytest.fixture(autouse=True)
def _no_data_of_the_machine(monkeypatch):
    monkeypatch.delenv(metamathqa.VARIABLE, raising=False)


def make_question(answer="42", question="How many?", **overrides):
    env = MetaMathQA(**overrides)
    env.reset(options={"question": question, "answer": answer})
    return env


@pytest.mark.parametrize("wrong", range(6))
def test_the_reward_halves_with_every_try(wrong):
    env = make_question(max_tries=6)
    for number in range(wrong):
        text, reward, terminated, truncated, info = env.step(str(number))
        assert (reward, terminated, truncated, info["success"]) == (0.0, False, False, False)
        assert text == env.render() == "How many?\nIncorrect. Please think again."
    assert env.hint().value == 0.5**wrong
    text, reward, terminated, truncated, info = env.step("42")
    assert (reward, terminated, truncated, info["success"]) == (0.5**wrong, True, False, True)
    assert text == "How many?\nCorrect!"


def test_the_environment_itself_ends_after_the_last_try():
    env = make_question(max_tries=2)
    assert env.step("1")[2:4] == (False, False)
    assert env.step("2")[2:4] == (False, True)
    assert (env.hint().solvable, env.hint().reason) == ("no", "no tries are left")
    right = make_question(max_tries=1)
    assert right.step("42")[2:4] == (True, False), "a right answer at the last try is the end, not a cut"


def test_the_budgets_of_the_prompt_follow_the_tries():
    for tries in (1, 7):
        spec = MetaMathQA(max_tries=tries).env_spec
        assert (spec.max_turns, spec.max_actions_per_turn, spec.max_actions) == (tries, 1, tries)
    with pytest.raises(ValidationError, match="max_tries"):
        MetaMathQA(max_tries=0)


@pytest.mark.parametrize(
    ("answer", "given", "same"),
    [
        ("x = 3", "X=3", True),
        ("x = 3", " x\n=\t3 ", True),
        ("\\frac{1}{2}", "\\FRAC {1} {2}", True),
        ("10", "10.0", False),
        ("10", "1 0", True),
        ("10", "10.", False),
        ("10", "", False),
        ("3/4", "6/8", False),
    ],
)
def test_answers_are_compared_ignoring_only_case_and_spaces(answer, given, same):
    assert same_answer(given, answer) == same
    assert (make_question(answer).step(given)[1] > 0) == same


def test_an_empty_answer_is_invalid_but_counts_as_an_attempt():
    env = make_question()
    for text in ("", " \n\t"):
        _, reward, _, _, info = env.step(text)
        assert (reward, info["valid"], info["effective"], info["success"]) == (0.0, False, False, False)
    assert env.step("42")[1] == 0.25
    nothing = make_question(answer="")
    assert nothing.step("")[1:3] == (0.0, False), "nothing is never right"


@given(st.lists(st.text(max_size=30), min_size=1, max_size=8), st.text(max_size=10))
def test_at_most_one_answer_is_rewarded(texts, answer):
    env = make_question(answer)
    paid = []
    for text in texts:
        _, reward, terminated, truncated, info = env.step(text)
        paid.append(reward)
        assert info["success"] == terminated == (reward > 0)
        if terminated or truncated:
            break
    assert paid[:-1] == [0.0] * (len(paid) - 1)
    assert paid[-1] in (0.0, 0.5 ** (len(paid) - 1))


def test_the_advice_is_the_answer_and_the_board_shows_every_try():
    env = make_question()
    assert env.hint().actions == ["42"]
    env.step("41")
    env.step("x" * 100)
    env.step("42")
    assert env.board().text == f"How many?\n\n41: wrong\n{'x' * 80}…: wrong\n42: right"
    assert (env.hint().actions, env.hint().distance) == ([], 0)


def test_generated_questions_follow_from_the_seed_and_can_be_answered():
    env = MetaMathQA()
    for seed in range(100):
        question, _ = env.reset(seed=seed)
        assert MetaMathQA().reset(seed=seed)[0] == question
        assert env.step(env.hint().actions[0])[1:3] == (1.0, True)


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("So it is 12.\nThe answer is: 12", "12"),
        ("The answer is:  x = 3 \n", "x = 3"),
        ("The answer is: a\nb", "a\nb"),
        ("The answer is: 1 The answer is: 2", "1 The answer is: 2"),
        ("The answer is: ", ""),
        ("The answer is:5", None),
        ("the answer is: 5", None),
        ("", None),
    ],
)
def test_the_answer_is_what_follows_the_first_mark(response, answer):
    assert extract_answer(response) == answer


RECORDS = [
    {"type": "GSM_Rephrased", "query": "What is 1 + 1?", "original_question": "?", "response": "2. The answer is: 2"},
    {"type": "MATH_SV", "query": "What is x?", "original_question": "?", "response": "I do not know."},
    {"type": "MATH_SV", "query": "And y? ", "original_question": "?", "response": "Well. The answer is: \\frac{1}{2}"},
]


@pytest.fixture(params=["list", "lines"])
def file(request, tmp_path):
    """The records as the public data set comes: one list, or one record a line."""
    path = tmp_path / "questions.json"
    lines = [json.dumps(record) for record in RECORDS]
    path.write_text(json.dumps(RECORDS) if request.param == "list" else "\n".join(lines), encoding="utf-8")
    return path


def test_the_public_files_are_read_and_records_without_an_answer_are_counted(file, caplog):
    env = MetaMathQA(path=str(file))
    questions = {env.reset(seed=seed)[0]: env.hint().actions for seed in range(20)}
    assert questions == {"What is 1 + 1?": ["2"], "And y?": ["\\frac{1}{2}"]}
    assert read_questions(file).skipped == 1
    (message,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert message == f"{file}: 1 of 3 records left out: no 'The answer is: ' in them"


def test_the_setting_has_priority_over_the_environment_variable(file, tmp_path, monkeypatch):
    monkeypatch.setenv(metamathqa.VARIABLE, str(file))
    assert MetaMathQA().reset(seed=0)[0] in {"What is 1 + 1?", "And y?"}
    other = tmp_path / "other.json"
    other.write_text('{"query": "Else?", "response": "The answer is: no"}')
    assert MetaMathQA(path=str(other)).reset(seed=0)[0] == "Else?"
    monkeypatch.setenv(metamathqa.VARIABLE, "")
    assert "?" in MetaMathQA().reset(seed=0)[0]


def test_a_file_is_read_once_until_it_changes(file):
    first = read_questions(file)
    assert read_questions(file) is first
    file.write_text('{"query": "New?", "response": "The answer is: yes"}')
    os.utime(file, ns=(1, 1))
    assert [question.text for question in read_questions(file).questions] == ["New?"]


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        ({"response": "The answer is: 1"}, "a record needs the texts query and response"),
        ({"query": "?", "response": 1}, "a record needs the texts query and response"),
        ({"query": " ", "response": "The answer is: 1"}, "query must have 1 to 20000 characters"),
        ({"query": "?" * 20_001, "response": "The answer is: 1"}, "query must have 1 to 20000 characters"),
    ],
)
def test_a_bad_record_is_named_with_its_line(tmp_path, record, complaint):
    path = tmp_path / "questions.jsonl"
    path.write_text(json.dumps(RECORDS[0]) + "\n" + json.dumps(record) + "\n")
    with pytest.raises(RecordsError, match=rf"questions\.jsonl, line 2: {complaint}"):
        MetaMathQA(path=str(path)).reset(seed=0)


def test_a_file_without_a_single_answer_names_what_is_missing(tmp_path):
    path = tmp_path / "questions.json"
    for text, count in (("[]", 0), (json.dumps(RECORDS[1:2]), 1)):
        path.write_text(text)
        with pytest.raises(RecordsError, match=f"none of its {count} records has an answer: each response must end"):
            MetaMathQA(path=str(path)).reset(seed=0)
