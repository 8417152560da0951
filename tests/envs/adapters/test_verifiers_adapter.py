"""Environments of verifiers, with the real package and small environments of our own, installed for the tests."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gymnasium.error import ResetNeeded
from pydantic import ValidationError

import envs
from envs.adapters import verifiers_loading
from envs.base import TextEnv
from envs.pool import EnvironmentPool
from envs.tools.call_formats import CallFormat, parse_calls, render_calls, tools_as_text
from envs.tools.calls import ToolCall

pytest.importorskip("verifiers.v1", reason="verifiers is not installed: pip install verifiers")

EXAMPLES = Path(__file__).parent / "verifiers_examples"
REFUSED = "from refused_examples import {names}\n\n__all__ = {exported!r}\n"
VARIANTS = {
    "judged-example": ["JudgedTaskset"],
    "remote-example": ["RemoteTaskset"],
    "beside-example": ["BesideTaskset"],
    "boxed-tools-example": ["BoxedToolsTaskset"],
    "two-clocks-example": ["TwoClocksTaskset"],
    "camera-example": ["CameraTaskset"],
    "tool-judged-example": ["ToolJudgedTaskset"],
    "box-example": ["BoxTaskset"],
    "pair-example": ["PairTaskset", "PairEnv"],
    "picture-example": ["PictureTaskset"],
    "silent-example": ["SilentTaskset"],
    "empty-example": ["EmptyTaskset"],
    "away-example": ["AwayTaskset"],
    "twice-example": ["PairTaskset", "TwiceEnv"],
    "runtime-example": ["RuntimeTaskset"],
}
"""Id of an environment → what its module takes from `refused_examples`."""
MADE: list[TextEnv] = []
"""Environments of the current test."""


def install(folder: Path, name: str, source: str) -> None:
    """Install an environment as a package of one module."""
    module = name.replace("-", "_")
    (folder / f"{module}.py").write_text(source)
    record = folder / f"{module}-1.0.dist-info"
    record.mkdir()
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        "Version: 1.0",
        "Summary: An example",
        "Requires-Dist: verifiers",
    ]
    (record / "METADATA").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module", autouse=True)
def _installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("packages")
    shutil.copy(EXAMPLES / "refused_examples.py", folder)
    for name in ("sums-example", "guess-example", "shop-example"):
        install(folder, name, (EXAMPLES / f"{name.replace('-', '_')}.py").read_text())
    for name, exported in VARIANTS.items():
        install(folder, name, REFUSED.format(names=", ".join(exported), exported=exported))
    install(folder, "old-example", "def load_environment(**arguments):\n    return None\n")
    install(folder, "broken-example", "import nothing_there\n\nTaskset = None\n")
    sys.path.insert(0, str(folder))
    for cache in (verifiers_loading.installed, verifiers_loading.load, verifiers_loading.questions):
        cache.cache_clear()
    yield
    sys.path.remove(str(folder))
    verifiers_loading.installed.cache_clear()


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while MADE:
        MADE.pop().close()


def make(identity: str, **settings: Any) -> TextEnv:
    MADE.append(envs.make("Verifiers", {"id": identity, **settings}))
    return MADE[-1]


def test_installed_environments_are_variants_with_their_summary() -> None:
    variants = envs.variants("Verifiers")
    assert variants["sums-example"] == "An example"
    assert "textarena" in variants
    assert not {"harbor", "verifiers", "echoscope"} & set(variants)


def test_a_question_of_one_turn_is_scored_by_its_rewards_with_their_weights() -> None:
    env = make("sums-example", arguments={"count": 1})
    question, info = env.reset(seed=2**62)
    assert question == "What is 0 + 7?"
    assert env.env_spec.instruction == "Reply with a number."
    assert not info["effective"]
    text, reward, terminated, truncated, info = env.step(" 7 ")
    assert text == "What is 0 + 7?\nScore: 1.5"
    assert (reward, terminated, truncated, info["success"]) == (1.5, True, False, True)
    with pytest.raises(ResetNeeded, match="over"):
        env.step("7")
    env.reset(seed=1)
    _, reward, terminated, _, info = env.step("9")
    assert (reward, terminated, info["success"]) == (0.5, True, False)


def test_arguments_reach_the_taskset_and_its_tasks() -> None:
    env = make("sums-example", arguments={"count": 1, "tolerance": 2})
    env.reset(seed=1)
    assert env.step("9")[1] == 1.5


def test_the_seed_chooses_among_the_first_questions() -> None:
    questions = {make("sums-example", arguments={"count": 500}).reset(seed=seed)[0] for seed in range(30)}
    assert len(questions) > 20
    few = {make("sums-example", arguments={"count": 500}, questions=2).reset(seed=seed)[0] for seed in range(30)}
    assert few == {"What is 0 + 7?", "What is 1 + 7?"}


def test_a_conversation_lasts_until_the_environment_ends_it() -> None:
    env = make("guess-example")
    assert env.reset(seed=3, options={"dynamics_seed": 1})[0] == "Guess a number below 10."
    seen = [env.step("11"), env.step("12")]
    assert [step[1:3] for step in seen] == [(0.0, False)] * 2
    assert seen[0][0].startswith("11? ")
    assert seen[0][4]["effective"]
    again = make("guess-example")
    again.reset(seed=3, options={"dynamics_seed": 1})
    assert [again.step("11"), again.step("12")] == seen, "its random words follow from the seed"
    target = env._episode.task.data.target  # type: ignore[attr-defined]
    text, reward, terminated, _, info = env.step(str(target))
    assert (reward, terminated, info["success"]) == (1.0, True, True)
    assert text.endswith("\nScore: 1")


@pytest.mark.parametrize(("settings", "replies"), [({}, 6), ({"max_turns": 3}, 3)])
def test_a_conversation_that_is_too_long_is_ended_and_scored(settings: dict[str, int], replies: int) -> None:
    spec = envs.spec("Verifiers", {"id": "guess-example", **settings})
    assert (spec.max_turns, spec.max_actions, spec.max_actions_per_turn) == (replies, replies, 1)
    env = make("guess-example", **settings)
    env.reset(seed=3)
    steps = [env.step("99") for _ in range(replies)]
    assert [step[1:3] for step in steps] == [(0.0, False)] * (replies - 1) + [(0.25, True)]


def test_a_stop_condition_ends_the_conversation() -> None:
    env = make("guess-example")
    env.reset(seed=3)
    assert env.step("No!")[1:3] == (0.0, True)


def test_an_abandoned_conversation_is_closed() -> None:
    env = make("guess-example")
    env.reset(seed=3)
    env.step("99")
    assert env.reset(seed=3)[0] == "Guess a number below 10."
    env.close()
    env.close()


def test_rewards_that_use_a_machine_get_a_folder() -> None:
    env = make("runtime-example")
    env.reset(seed=1)
    assert env.step("from the machine")[1] == 1.0


def test_an_answer_that_the_scorer_cannot_read_fails_the_step_with_its_reason() -> None:
    env = make("sums-example")
    env.reset(seed=1)
    with pytest.raises(RuntimeError, match=r"sums-example failed while answering: TaskError: .*invalid literal"):
        env.step("nine")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"id": "sum-example"}, "Verifiers has no 'sum-example': did you mean sums-example"),
        ({"id": "verifiers"}, "Verifiers has no 'verifiers'"),
        ({"id": "judged-example"}, "examiner judges the answers, a model behind an API"),
        ({"id": "remote-example"}, "the tools of Clock are those of a server, and only tools of its own code"),
        ({"id": "beside-example"}, "the tools of Clock use the agent's machine, and it has none here"),
        ({"id": "boxed-tools-example"}, "the tools of Clock need a container"),
        ({"id": "tool-judged-example"}, "examiner judges the answers, a model behind an API"),
        ({"id": "box-example"}, "it needs a container"),
        ({"id": "pair-example"}, r"it has 2 agents \(buyer, seller\), and a run trains one"),
        ({"id": "old-example"}, "old-example is written for verifiers before 0.4"),
        ({"id": "broken-example"}, "cannot be imported: ModuleNotFoundError: No module named 'nothing_there'"),
        (
            {"id": "sums-example", "arguments": {"system_prompt": "a"}},
            "has no 'system_prompt': choose among count, tol",
        ),
        (
            {"id": "sums-example", "arguments": {"count": "many"}},
            "refuses the arguments: taskset.count: Input should be",
        ),
        ({"id": "guess-example", "arguments": {"sum": 3}}, "has no 'sum': choose among praise"),
    ],
)
def test_what_cannot_be_played_is_refused_with_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        envs.settings_model("Verifiers").model_validate(settings)


@pytest.mark.parametrize(
    ("identity", "sentence"),
    [
        ("picture-example", "its messages have pictures, and only text can be played"),
        ("silent-example", "silent-example cannot be played: it gave no reward"),
        ("empty-example", "has no questions with these arguments"),
        ("away-example", "the questions of away-example cannot be loaded: ConnectionError: the hub cannot be reached"),
        ("two-clocks-example", "two of its tools have the name clock_now"),
        ("twice-example", "it plays several conversations in an episode"),
    ],
)
def test_what_turns_out_to_be_unplayable_fails_the_episode_with_a_sentence(identity: str, sentence: str) -> None:
    env = make(identity)
    with pytest.raises((ValueError, RuntimeError), match=sentence):
        env.reset(seed=1) and env.step("x")


def test_tools_are_offered_with_their_schemas_under_the_names_that_verifiers_gives_them() -> None:
    env = make("shop-example")
    question, _ = env.reset(seed=1)
    assert question in ("Buy a lamp.", "Buy a rug.")
    assert env.env_spec.instruction == "You shop."
    price, buy = env.env_spec.tools
    assert (price.name, price.description) == ("price", "The price of something, in coins.")
    assert (buy.name, buy.description) == ("shop_buy", "Put something into the basket.")
    assert buy.properties["item"]["enum"] == ["lamp", "rug", "sofa"]
    assert buy.properties["count"]["type"] == "integer"
    assert buy.parameters["required"] == ["item"]
    assert envs.spec("Verifiers", {"id": "shop-example"}).max_turns == 20
    assert envs.spec("Verifiers", {"id": "shop-example", "max_turns": 4}).max_actions == 4


def shop(**settings: Any) -> tuple[TextEnv, str]:
    """The shop after a reset, and what is wanted there."""
    env = make("shop-example", **settings)
    return env, env.reset(seed=1)[0].split()[-1].rstrip(".")


def test_calls_are_executed_by_the_environments_code_and_scored_by_its_rewards() -> None:
    env, wanted = shop()
    text, reward, terminated, _, info = env.step(f"price({wanted})")
    assert text == {"lamp": "12", "rug": "30"}[wanted]
    assert (reward, terminated, info["effective"]) == (0.0, False, True)
    assert info["call"] == {"tool": "price", "arguments": {"item": wanted}, "result": text, "failed": False}
    call = f'{{"name": "shop_buy", "arguments": {{"item": "{wanted}"}}}}'
    assert env.step(f"<tool_call>{call}</tool_call>")[0] == "1 of 2"
    assert env.board().text == f'Buy a {wanted}.\n\n▸ shop_buy(item="{wanted}")\n1 of 2'  # type: ignore[union-attr]
    text, reward, terminated, _, info = env.step("Done.")
    assert (reward, terminated, info["success"]) == (1.75, True, True)
    assert text == "1 of 2\nScore: 1.75"
    assert "call" not in info


def test_a_call_that_fails_changes_nothing_and_gives_the_reason() -> None:
    env, wanted = shop()
    failed = {
        'shop_buy("piano")': "the argument 'item' must be one of",
        "shop_sell(lamp)": "there is no tool 'shop_sell': choose price, shop_buy",
        "price()": "price needs the argument 'item'",
        "price(piano)": "Error executing tool price",
        "shop_buy(item=rug, count=3": "the bracket after shop_buy is not closed",
        'shop_buy(item="rug", count=3)': "the budget is 2",
        '<tool_call>{"name": "price", "arguments": {"item": </tool_call>': "cannot be read",
    }
    for action, reason in failed.items():
        text, _, terminated, _, info = env.step(action)
        assert text.startswith("Error: "), action
        assert reason in text or "JSON" in text, text
        assert not terminated
        assert info["call"]["failed"]
        assert not info["effective"]
    assert env.step(f'shop_buy("{wanted}")')[0] == "1 of 2", "the basket is as before the call that failed"
    assert env.step("Done.")[1] == 1.25


@pytest.mark.parametrize("call_format", ["hermes", "llama", "mistral"])
def test_calls_in_the_format_of_each_model_family_are_executed(call_format: CallFormat) -> None:
    env, wanted = shop()
    offered = tools_as_text(env.env_spec.tools, call_format)
    assert '"enum": ["lamp", "rug", "sofa"]' in offered
    calls = [ToolCall("price", {"item": wanted}), ToolCall("shop_buy", {"item": wanted, "count": 2})]
    actions = parse_calls(render_calls(calls, call_format), call_format, env.env_spec.tools)
    assert [env.step(action)[0] for action in actions] == [{"lamp": "12", "rug": "30"}[wanted], "2 of 2"]


def test_a_stop_condition_on_the_state_of_tools_ends_the_episode() -> None:
    env, _ = shop()
    text, reward, terminated, _, info = env.step('shop_buy("sofa")')
    assert (text, reward, terminated) == ("1 of 2\nScore: 0", 0.0, True)
    assert info["call"]["tool"] == "shop_buy"
    with pytest.raises(ResetNeeded, match="over"):
        env.step("Done.")


def test_too_many_calls_end_the_episode_which_is_scored() -> None:
    env, wanted = shop(max_turns=2)
    assert not env.step(f"price({wanted})")[2]
    assert env.step(f'shop_buy("{wanted}")')[1:3] == (1.5, True)


def test_each_episode_has_tools_and_a_state_of_its_own() -> None:
    env, wanted = shop()
    env.step(f'shop_buy("{wanted}")')
    env.reset(seed=1)
    assert env.step(f'shop_buy("{wanted}")')[0] == "1 of 2"


def test_long_results_are_cut() -> None:
    env, _ = shop(max_result=20)
    text = env.step("price(piano)")[0]
    assert len(text) == 20
    assert text.endswith("…")


def test_a_tool_that_returns_a_picture_fails_the_episode() -> None:
    env = make("camera-example")
    env.reset(seed=1)
    with pytest.raises(RuntimeError, match="the tool look returns something other than text"):
        env.step("camera_look()")


def test_an_empty_id_is_refused_with_an_explanation() -> None:
    with pytest.raises(
        ValueError, match="Verifiers has no default variant: set id in its settings to an installed env"
    ):
        envs.make("Verifiers")


def test_calls_in_the_sandbox_of_a_run_have_their_tools_and_results() -> None:
    pool = EnvironmentPool("Verifiers", {"id": "shop-example"}, step_timeout=60, start_timeout=300)
    try:
        started = list(pool.start([(4, 5), (7, 7)]))
        assert all(isinstance(env, TextEnv) for env in started), started
        for env in started:
            assert [tool.name for tool in env.env_spec.tools] == ["price", "shop_buy"]  # type: ignore[union-attr]
            assert env.step("price(lamp)")[4]["call"]["result"] == "12"  # type: ignore[union-attr]
            assert env.step("Done.")[1:3] == (0.75, True)  # type: ignore[union-attr]
    finally:
        pool.close()


def test_it_plays_in_the_sandbox_of_a_run() -> None:
    pool = EnvironmentPool("Verifiers", {"id": "guess-example"}, step_timeout=60, start_timeout=300)
    try:
        started = list(pool.start([(4, 5), (4, 6), (7, 7)]))
        assert all(isinstance(env, TextEnv) for env in started), started
        ends = [env.step("No!") for env in started]  # type: ignore[union-attr]
        assert [end[1:3] for end in ends] == [(0.0, True)] * 3
    finally:
        pool.close()
