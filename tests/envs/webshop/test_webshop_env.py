"""WebShop environment: whole episodes, the oracle, texts."""

import copy
import subprocess
import sys
from pathlib import Path

import pytest
from gymnasium.error import ResetNeeded

import envs
from envs.webshop import webshop_env as module
from envs.webshop.catalogue_files import CatalogueError
from envs.webshop.webshop_env import HINTS, VARIABLE, WebShop
from tests.envs.webshop.shop import INSTRUCTIONS, REAL, SHIRT, write

ROOT = Path(module.__file__).parents[2]
needs_real_products = pytest.mark.skipif(not REAL.is_dir(), reason=f"no real products at {REAL}")


@pytest.fixture(autouse=True)
def _no_data_from_outside(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


def advised(env: WebShop) -> list[float]:
    """Follow the oracle to the purchase, with decreasing distances. Returns the rewards."""
    rewards = []
    while actions := env.hint().actions:
        before = env.hint().distance
        _, reward, *_, info = env.step(actions[len(rewards) % len(actions)])
        assert info["valid"]
        assert env.hint().distance == before - 1
        rewards.append(reward)
    return rewards


def test_the_first_state_is_the_request_the_hints_and_the_actions():
    env = WebShop()
    text, info = env.reset(seed=4)
    lines = text.split("\n")
    assert lines[0] == env.goal.text + "."
    assert tuple(lines[1:-1]) == HINTS
    assert lines[-1].endswith(": search[keywords].")
    assert info == {"success": False, "effective": False, "valid": True, "actual": None}


def test_later_states_are_the_pages_texts_with_the_request_on_every_page():
    env = WebShop(hints="-")
    env.reset(seed=4)
    text, *_ = env.step("search[tea]")
    page, offer = text.split("\n")
    assert page.startswith(f"Instruction: [SEP] {env.goal.text} [SEP] Back to Search [SEP] Page 1 (Total results: ")
    assert page.endswith(".")
    assert offer.endswith(", ".join(env.available_actions) + ".")
    text, *_ = env.step("click[back to search]")
    assert text.split("\n")[0] == f"WebShop [SEP] Instruction: [SEP] {env.goal.text} [SEP] Search."


def test_hint_lines_can_be_set():
    text, _ = WebShop(hints="First line.\nSecond line.").reset(seed=1)
    assert text.split("\n")[1:3] == ["First line.", "Second line."]
    assert text.count("\n") == 3


@pytest.mark.parametrize("action", ["click[buy now]", "search[]", "buy", "", "click[next >]", "SEARCH tea", "||"])
def test_unavailable_actions_change_nothing(action):
    env = WebShop()
    before, _ = env.reset(seed=2)
    board = env.board()
    text, reward, terminated, truncated, info = env.step(action)
    assert (text, reward, terminated, truncated) == (before, 0.0, False, False)
    assert info == {"success": False, "effective": False, "valid": False, "actual": None}
    assert env.board() == board


def test_only_a_purchase_is_rewarded_and_it_ends_the_episode():
    env = WebShop()
    env.reset(seed=9)
    rewards = advised(env)
    assert rewards == [0.0] * (len(rewards) - 1) + [1.0]
    assert env.bought is not None
    assert env.hint().distance == 0
    assert "Reward 1.00" in env.board().model_dump_json()
    assert env.available_actions == []
    with pytest.raises(ResetNeeded, match="the episode is over"):
        env.step("search[tea]")


def test_a_purchase_without_options_has_a_lower_reward_and_is_final():
    env = WebShop()
    seed = next(seed for seed in range(50) if env.reset(seed=seed) and env.goal.options)
    env.reset(seed=seed)
    env.step(env.hint().actions[0])
    env.step(env.hint().actions[0])
    _, reward, terminated, _, info = env.step("CLICK[Buy Now]")
    goal = env.goal
    assert terminated
    assert not info["success"]
    assert reward == pytest.approx((len(goal.attributes) + 1) / (len(goal.attributes) + len(goal.options) + 1))
    hint = env.hint()
    assert (hint.solvable, hint.actions, hint.value) == ("no", [], reward)
    assert "only to" in hint.reason


def test_choosing_the_same_option_again_changes_nothing():
    env = WebShop()
    env.reset(seed=9)
    env.step(env.hint().actions[0])
    env.step(env.hint().actions[0])
    option = env.available_actions[-1]
    first, again = env.step(option)[4], env.step(option)[4]
    assert (first["effective"], again["effective"], again["valid"]) == (True, False, True)


def test_an_episode_can_be_ended_by_the_environment_itself():
    env = WebShop(max_steps=2)
    env.reset(seed=9)
    assert env.step("nonsense")[2:4] == (False, False)
    assert env.step("search[tea]")[2:4] == (False, False)
    assert env.step("click[back to search]")[2:4] == (False, True)
    with pytest.raises(ResetNeeded):
        env.step("search[tea]")


def test_the_last_page_of_results_is_detected():
    env = WebShop()
    env.reset(seed=9)
    env.step("search[herbal tea]")
    assert not env.end_of_page
    for _ in range(5):
        if not env.end_of_page:
            env.step("click[next >]")
    assert env.end_of_page
    assert env.available_actions == ["click[back to search]", "click[< prev]"]


def test_every_goal_of_the_generated_shop_can_be_bought_perfectly_within_the_budget():
    env = WebShop()
    env.reset(seed=0)
    for number in range(0, env.catalogue.goals, 9):
        env.reset(options={"goal": number})
        assert env.hint().distance <= env.env_spec.max_actions
        assert advised(env)[-1] == 1.0


def test_the_oracle_finds_the_goal_from_any_page():
    env = WebShop()
    for seed in range(25):
        env.reset(seed=seed)
        env.action_space.seed(seed)
        for step in range(12):
            offered = [action for action in env.available_actions if "buy now" not in action]
            action = offered[(seed * 7 + step * 3) % len(offered)]
            env.step(action.replace("keywords", "linen" if seed % 2 else env.goal.query))
        assert advised(env)[-1] == 1.0


@pytest.mark.parametrize("per_page", [1, 4, 50])
def test_pages_show_as_many_results_as_set_and_the_oracle_counts_them(per_page):
    env = WebShop(results_per_page=per_page)
    for goal in range(12):
        env.reset(seed=0, options={"goal": goal})
        env.step("search[water]")
        products = [action for action in env.available_actions if action.startswith("click[es")]
        assert len(products) <= per_page
        if len(products) == per_page:
            env.step("click[next >]")
            following = [action for action in env.available_actions if action.startswith("click[es")]
            assert not set(products) & set(following)
        env.step("click[back to search]")
        assert advised(env)[-1] == 1


def test_splits_have_disjoint_goals():
    found = {}
    for split in ("train", "validation", "test"):
        env = WebShop(split=split)
        found[split] = {env.reset(seed=seed) and env.goal for seed in range(300)}
        assert len(found[split]) > 150
    assert not found["train"] & found["test"]
    assert not found["train"] & found["validation"]
    assert not found["validation"] & found["test"]


def test_a_seed_means_the_same_goal_in_every_process():
    code = "import envs; env = envs.make('WebShop'); print([env.reset(seed=seed)[0] for seed in range(20)])"
    env = WebShop()
    here = [env.reset(seed=seed)[0] for seed in range(20)]
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(here)


def test_environments_and_their_copies_share_one_catalogue():
    first, second = WebShop(), WebShop(split="test")
    first.reset(seed=1)
    second.reset(seed=1)
    assert first.catalogue is second.catalogue
    ahead = copy.deepcopy(first)
    assert ahead.catalogue is first.catalogue
    ahead.step("search[tea]")
    assert first.available_actions == ["search[keywords]"]


def test_the_shop_is_chosen_by_setting_or_environment_variable(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(write(tmp_path)))
    env = envs.make("WebShop")
    env.reset(seed=0)
    assert env.goal.asin == "B000SHIRT1"
    monkeypatch.setenv(VARIABLE, "/nowhere/at/all")
    chosen = envs.make("WebShop", {"path": str(tmp_path)})
    chosen.reset(seed=0)
    assert chosen.goal.asin == "B000SHIRT1"
    with pytest.raises(CatalogueError, match="/nowhere/at/all is not a folder"):
        envs.make("WebShop").reset(seed=0)


def test_a_goal_that_its_own_product_cannot_fulfil_is_reported(tmp_path):
    human = {
        "B000SHIRT1": [
            {"instruction": "A green one.", "instruction_attributes": ["loose fit"], "instruction_options": ["green"]}
        ]
    }
    env = WebShop(path=str(write(tmp_path, human=human)))
    env.reset(seed=0)
    hint = env.hint()
    assert (hint.solvable, hint.distance, hint.value) == ("unknown", None, pytest.approx(2 / 3))
    assert "matches its own request only to 0.67" in hint.reason
    while env.hint().actions:
        reward = env.step(env.hint().actions[0])[1]
    assert reward == pytest.approx(2 / 3)


def test_an_unsearchable_product_is_reported(tmp_path):
    instructions = {"B000SHIRT1": {**INSTRUCTIONS["B000SHIRT1"], "instruction": "Find me ???"}}
    nameless = {**SHIRT, "name": "???", "full_description": "", "query": ""}
    env = WebShop(path=str(write(tmp_path, products=[nameless], instructions=instructions)))
    env.reset(seed=0)
    assert env.hint().solvable == "unknown"
    assert env.hint().actions == []


@needs_real_products
def test_every_goal_of_the_real_products_can_be_bought_perfectly():
    env = WebShop(path=str(REAL))
    env.reset(seed=0)
    lengths = []
    for number in range(env.catalogue.goals):
        env.reset(options={"goal": number})
        rewards = advised(env)
        assert rewards[-1] == 1.0, env.goal
        lengths.append(len(rewards))
    assert len(lengths) == 501
    assert (min(lengths), max(lengths)) == (3, 5)


@needs_real_products
def test_a_wrong_real_product_has_a_lower_reward():
    env = WebShop(path=str(REAL))
    env.reset(seed=0)
    catalogue = env.catalogue
    for number in range(0, catalogue.goals, 5):
        env.reset(options={"goal": number})
        for product in catalogue.products[::9]:
            if product.asin == env.goal.asin:
                continue
            values = [value for group in product.options.values() for value in group]
            assert module.reward.score(product, values, env.goal).total < 1
