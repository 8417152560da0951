"""Environments with tools: calls, costs, budgets, hints, files of questions, each kind of question."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import envs
from envs.base import EnvSpec
from envs.lost_reasons import OTHER, lost_reason
from envs.sandbox.client import Sandbox
from envs.support.json_records import RecordsError
from envs.tools.documents import NOTHING_FOUND, generated_collection
from envs.tools.search_env import ToolSearch
from envs.tools.tool_env import read_tasks, same_answer
from tests.envs.tools.test_mcp_client import SERVER

NAMES = ["ToolCalculator", "ToolPython", "ToolSearch", "ToolMCP"]
QUESTION = {"question": "What is 6 * 7?", "answer": "42"}
names = pytest.mark.parametrize("name", NAMES)


def start(name="ToolCalculator", options=QUESTION, seed=1, **settings):
    env = envs.make(name, settings)
    env.reset(seed=seed, options=options)
    return env


def test_a_call_has_its_result_as_the_next_state_and_costs_nothing():
    env = start()
    text, reward, terminated, truncated, info = env.step("calculator(6 * 7)")
    assert (text, reward, terminated, truncated) == ("42", 0.0, False, False)
    assert info["call"] == {
        "tool": "calculator",
        "arguments": {"expression": "6 * 7"},
        "result": "42",
        "failed": False,
    }
    assert (info["success"], info["effective"], info["valid"]) == (False, True, True)


@pytest.mark.parametrize(("answer", "reward"), [("42", 1.0), (" 42. ", 1.0), ("42.0", 1.0), ("43", 0.0), ("", 0.0)])
def test_the_answer_ends_the_episode(answer, reward):
    env = start()
    text, paid, terminated, truncated, info = env.step(answer)
    assert (paid, terminated, truncated) == (reward, True, False)
    assert text == ("Correct!" if reward else "Incorrect.")
    assert ("call" in info, info["success"]) == (False, bool(reward))


def test_a_call_that_fails_is_a_state_with_the_reason_and_changes_nothing():
    env = start()
    text, _, terminated, _, info = env.step("calculator(6 *)")
    assert text == "Error: a number is missing"
    assert (terminated, info["effective"], info["call"]["failed"]) == (False, False, True)
    text, *_, info = env.step("abacus(6)")
    assert text == "Error: there is no tool 'abacus': choose calculator"


def test_calls_can_cost():
    env = start(call_cost=0.25)
    assert env.step("calculator(6 * 7)")[1] == -0.25
    assert env.step("42")[1] == 1.0


def test_the_answer_must_follow_the_last_call():
    env = start(max_calls=2)
    spec = env.env_spec
    assert (spec.max_turns, spec.max_actions_per_turn, spec.max_actions) == (3, 1, 3)
    assert envs.spec("ToolCalculator", {"max_calls": 2}).max_actions == 3
    ends = [env.step("calculator(1)")[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]
    assert env.hint().reason == "no tries are left"


@pytest.mark.parametrize("last", ["41", "calculator(1)"])
def test_the_reasons_of_lost_states_are_known_ones(last):
    env = start(max_calls=1)
    env.step("calculator(1)")
    env.step(last)
    assert lost_reason(env.hint().reason) is not OTHER


def test_results_are_cut_at_the_limit():
    env = start("ToolPython", max_result=20)
    assert env.step("python(print('x' * 100))")[0] == "x" * 19 + "…"


@names
def test_following_the_hints_answers_every_question(name):
    env = envs.make(name)
    for seed in range(12):
        question, _ = env.reset(seed=seed)
        distance = env.hint().distance
        for left in range(distance, 0, -1):
            assert env.hint().distance == left
            _, reward, terminated, _, info = env.step(env.hint().actions[0])
            assert not info.get("call", {}).get("failed"), info
        assert (reward, terminated, info["success"], env.hint().distance) == (1.0, True, True, 0)
        assert distance >= 2, "a call comes before the answer"
        assert question in env.board().text


@names
def test_the_description_lists_the_tools(name):
    env = start(name, {})
    assert env.env_spec.tools
    assert EnvSpec.model_validate(env.env_spec.model_dump(mode="json")) == env.env_spec
    for tool in env.env_spec.tools:
        json.dumps(tool.definition())


@pytest.mark.parametrize("name", ["ToolPython", "ToolMCP"])
def test_calls_run_in_sandbox_processes(name):
    with_own = Sandbox(name)
    env = with_own.make()
    try:
        env.reset(seed=4)
        while (hint := env.hint()).distance != 1:
            *_, info = env.step(hint.actions[0])
            assert not info["call"]["failed"]
        assert env.env_spec.tools, "definitions arrive with the reset"
        assert env.step(hint.actions[0])[1] == 1.0
    finally:
        env.close()
        with_own.close()


@names
def test_a_copy_can_call_too(name):
    env = start(name, {})
    ahead = copy.deepcopy(env)
    action = env.hint().actions[0]
    assert ahead.step(action)[0] == env.step(action)[0]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1,234", "1234", True),
        ("1234.0", "1234", True),
        ("-3", "3", False),
        ("The Mel", "the  mel.", True),
        ("Mel", "Melk", False),
        ("1/2", "1/2", True),
        ("1,2", "12", True),
        ("", "0", False),
    ],
)
def test_answers_are_compared_as_numbers_or_as_words(one, other, same):
    assert same_answer(one, other) is same


@given(st.text(), st.text())
def test_any_two_texts_can_be_compared(one, other):
    assert same_answer(one, one) or not one.strip()
    assert same_answer(one, other) == same_answer(other, one)


# -- search ---------------------------------------------------------------------------------------------------------


def test_the_collection_is_the_same_in_every_episode_and_settable():
    assert generated_collection(60, 0) == generated_collection(60, 0)
    assert generated_collection(60, 0) != generated_collection(60, 1)
    titles = [document.title for document in generated_collection(200, 3).documents]
    assert len(titles) == len(set(titles)) == 200


def test_a_search_returns_the_documents_that_fit_best():
    env = start("ToolSearch", {}, results=1)
    person = generated_collection(60, 0).people[3]
    assert (
        env.step(f"search({person.name})")[0]
        == f"{person.name}: {person.name} is a {person.job} and was born in {person.town}."
    )
    assert env.step("search(xyzzy)")[0] == NOTHING_FOUND


def test_one_hop_takes_one_search():
    assert start("ToolSearch", {}, hops=1).hint().distance == 2
    assert start("ToolSearch", {}).hint().distance == 3


def test_documents_and_questions_of_files(tmp_path):
    documents, questions = tmp_path / "documents.jsonl", tmp_path / "questions.jsonl"
    documents.write_text('{"title": "Moons", "text": "Tavi has two moons."}\n{"text": "Mel is a river."}\n')
    questions.write_text('{"question": "How many moons has Tavi?", "answer": 2}\n')
    env = start("ToolSearch", {}, path=str(documents), questions=str(questions))
    assert env.render() == "How many moons has Tavi?"
    assert env.step("search(moons of Tavi)")[0] == "Moons: Tavi has two moons."
    assert env.step("search(river)")[0] == "Mel is a river."
    assert env.step("2")[1] == 1.0
    with pytest.raises(ValidationError, match="path and questions belong together"):
        ToolSearch(path=str(documents))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"question": "", "answer": "1"}', "question must be a text of 1 to"),
        ('{"question": "?", "answer": null}', "answer must be a text or a number"),
        ("", "contains no question"),
    ],
)
def test_a_faulty_file_of_questions_is_refused_with_the_line(tmp_path, line, message):
    path = tmp_path / "questions.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(RecordsError, match=message):
        read_tasks(path)


# -- MCP ------------------------------------------------------------------------------------------------------------


def test_tools_of_a_server_of_ones_own(tmp_path):
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question": "What is the sum of 20 and 22?", "answer": "42"}\n')
    settings = {"command": f"python -S {SERVER}", "questions": str(questions), "tools": ["add"]}
    env = start("ToolMCP", {}, **settings)
    assert [tool.name for tool in env.env_spec.tools] == ["add"]
    assert env.step("add(20, 22)")[0] == "42"
    assert env.step("end()")[0] == "Error: there is no tool 'end': choose add"
    assert env.step("42")[1] == 1.0
    env.close()


def test_a_command_needs_questions_and_is_for_the_operator_of_a_site():
    with pytest.raises(ValidationError, match="command needs questions"):
        envs.make("ToolMCP", {"command": "server"})
    with pytest.raises(ValidationError, match="cannot be split into words"):
        envs.make("ToolMCP", {"command": "'server"})
