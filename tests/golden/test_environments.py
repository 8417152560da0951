"""Environments, step by step, against recordings of the reference (shared/golden/environments.json)."""

import json
import math
import os
import re
from collections import Counter
from pathlib import Path

import pytest

import envs
from envs import frozen_lake, metamathqa
from envs.sokoban import levels
from envs.support import arithmetic
from envs.webshop import catalogue, generated
from envs.webshop.reward import ALIKE, score

VARIABLE = "ECHOSCOPE_GOLDEN_ENVIRONMENTS"
DEFAULT = Path(__file__).parents[3] / "shared" / "golden" / "environments.json"
HERE = {"sokoban", "frozen_lake", "bandit", "countdown", "metamathqa", "webshop"}
TRAINER = {"parser", "manager"}

path = Path(os.environ.get(VARIABLE) or DEFAULT)
if not path.exists() and VARIABLE not in os.environ:
    pytest.skip(f"no golden file at {path}; set {VARIABLE} to one", allow_module_level=True)
golden = json.loads(path.read_text(encoding="utf-8"))


def part(*keys):
    """The value under these keys; skips the test if the file has only other parts."""
    found = golden
    for key in keys:
        if key not in found:
            pytest.skip(f"{path.name} has no {'.'.join(keys)}")
        found = found[key]
    return found


def cases(section):
    return [pytest.param(case, id=case["name"]) for case in golden.get(section, {}).get("cases", [])]


def nameless(section, key, *named_by):
    """Cases without a name, named by some of their fields."""
    found = golden.get(section, {}).get(key, [])
    return [pytest.param(case, id=ascii(" ".join(str(case[name]) for name in named_by))) for case in found]


def follow(env, case, start):
    """Play the case's actions and compare everything recorded about each step."""
    assert start == case["start_text"]
    total = 0.0
    for number, (action, wanted) in enumerate(zip(case["actions"], case["steps"], strict=True)):
        text, reward, terminated, truncated, info = env.step(action)
        total += reward
        found = {
            "action": action,
            "text": text,
            "reward": pytest.approx(reward),
            "done": terminated or truncated,
            "success": info["success"],
            "action_is_effective": info["effective"],
            "action_is_valid": info["valid"],
        }
        assert wanted == found, f"step {number}"
    if "total_reward" in case:
        assert total == pytest.approx(case["total_reward"])


def test_every_section_and_part_of_the_file_is_known():
    assert set(golden) - {"meta"} <= HERE | TRAINER
    assert set(golden.get("sokoban", {})) <= {"rules", "generation_statistics", "cases"}
    assert set(golden.get("frozen_lake", {})) <= {"meta", "cases", "slippery"}
    assert set(golden.get("bandit", {})) <= {"facts"}
    assert set(golden.get("countdown", {})) <= {"facts", "cases", "has_solution"}
    assert set(golden.get("metamathqa", {})) <= {"facts", "cases", "extract_answer"}
    assert HERE & set(golden), "the file holds nothing for these tests"


@pytest.mark.parametrize("case", cases("sokoban"))
def test_sokoban_matches_the_reference(case):
    vocabulary = {"standard": "standard", "alternative": "letters"}[case["vocab"]]
    env = envs.make(
        "LargeSokoban", {"vocabulary": vocabulary, "max_steps": case["max_steps"], "boxes": case["num_boxes"]}
    )
    options = {"room": case["start_text"], "boxes_on_target": case["initial_boxes_on_target_counter"]}
    start, _ = env.reset(options=options)
    assert [list(place) for place in env.targets] == sorted(case["targets"])
    follow(env, case, start)


def test_sokoban_symbols_and_names_match_the_reference():
    rules = part("sokoban", "rules")
    assert "".join(rules["symbols_standard"].values()) == levels.SYMBOLS["standard"]
    assert "".join(rules["symbols_alternative"].values()) == levels.SYMBOLS["letters"]
    assert tuple(rules["action_ids"].values()) == envs.spec("Sokoban").actions


@pytest.mark.parametrize(
    ("name", "rooms"), [("Sokoban", "6x6_1box_search_depth300"), ("LargeSokoban", "8x8_2boxes_search_depth10")]
)
def test_sokoban_rooms_match_the_difficulty_of_the_reference(name, rooms):
    published = part("sokoban", "generation_statistics", rooms)["shortest_solution_len_first_200"]
    env = envs.make(name)
    lengths = []
    for seed in range(400):
        env.reset(seed=seed)
        lengths.append(env.hint().distance)
    lengths.sort()
    assert abs(lengths[200] - published["median"]) <= 1
    assert abs(lengths[360] - published["p90"]) <= 1
    assert lengths[0] == published["min"]


@pytest.mark.parametrize("case", cases("frozen_lake"))
def test_frozen_lake_matches_the_reference(case):
    env = envs.make("FrozenLake", {"slippery": case["slippery"]})
    start, _ = env.reset(options={"map": "\n".join(case["map"])})
    follow(env, case, start)


def test_frozen_lake_defaults_are_the_reference_defaults():
    defaults = part("frozen_lake", "meta", "defaults")
    settings = envs.settings_model("FrozenLake")()
    assert (settings.size, settings.frozen, settings.slippery) == (
        defaults["size"],
        defaults["p_frozen"],
        defaults["is_slippery"],
    )
    assert list(defaults["symbols"]) == list(envs.spec("FrozenLake").vocabulary)
    assert tuple(defaults["actions"].values()) == envs.spec("FrozenLake").actions


def slippery():
    found = golden["frozen_lake"]["slippery"]
    return frozen_lake.parse("\n".join(found["map"])), found["ragen_action_to_gym"]


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(entry, id=f"{entry['state']}-{entry['action']}")
        for entry in golden.get("frozen_lake", {}).get("slippery", {}).get("transition_probabilities", [])
    ],
)
def test_slippery_transitions_match_the_reference_table(entry):
    lake, numbers = slippery()
    action = numbers[entry["action"]]
    wanted, found = Counter(), Counter()
    for outcome in entry["outcomes"]:
        end = outcome["next_state"]
        wanted[end] += outcome["prob"]
        assert outcome["terminated"] == (end in lake.holes or end == lake.goal)
        assert outcome["reward"] == float(end == lake.goal != entry["state"])
    ends = lake.outcomes(entry["state"], action, slippery=True)
    for end in ends:
        found[end] += 1 / len(ends)
    assert found == pytest.approx(wanted, abs=1e-5)


def chi_square(counts, chances):
    total = sum(counts.values())
    assert set(counts) <= set(chances)
    return sum((counts.get(end, 0) - total * chance) ** 2 / (total * chance) for end, chance in chances.items())


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(entry, id=f"{entry['state']}-{entry['action']}")
        for entry in golden.get("frozen_lake", {}).get("slippery", {}).get("frequencies_10000", [])
    ],
)
def test_slips_are_as_frequent_as_in_the_reference(entry):
    lake, numbers = slippery()
    ends = lake.outcomes(entry["state"], numbers[entry["action"]], slippery=True)
    chances = {end: ends.count(end) / len(ends) for end in ends}
    assert chi_square({int(end): count for end, count in entry["counts"].items()}, chances) < 16

    cells = list(lake.draw(lake.start).replace("\n", "").replace("P", "_"))
    cells[entry["state"]] = "P"
    start = "\n".join("".join(cells[row * lake.width : (row + 1) * lake.width]) for row in range(lake.height))
    env = envs.make("FrozenLake")
    ours = Counter()
    for seed in range(1500):
        env.reset(seed=seed, options={"map": start})
        env.step(entry["action"])
        row, column = env.player
        ours[row * lake.width + column] += 1
    assert chi_square(ours, chances) < 16


def test_bandit_rewards_match_the_paper():
    facts = part("bandit", "facts")
    settings = envs.settings_model("Bandit")()
    assert settings.low_reward == facts["paper"]["lo_arm_reward"]
    assert settings.high_probability == facts["code"]["hi_mean"]
    env = envs.make("Bandit", {"low_reward": facts["code"]["lo_arm_reward"]})
    env.reset(seed=0)
    text, reward, terminated, _, info = env.step("phoenix")
    assert (reward, terminated, info["success"]) == (facts["code"]["lo_arm_reward"], True, False)
    assert text == facts["observation_after_pull"].format(arm_name="Phoenix", reward=reward)


def test_bandit_rewards_and_arm_orders_are_as_frequent_as_in_the_reference():
    observed = part("bandit", "facts", "observed")
    env = envs.make("Bandit")
    count, paid, low_first = 4000, 0.0, 0
    for seed in range(count):
        env.reset(seed=seed)
        low_first += env.env_spec.actions[0] == "Phoenix"
        paid += env.step("Dragon")[1]
    assert abs(paid / count - observed["hi_mean_20000_draws_one_stream"]) < 4 * math.sqrt(0.25 * 0.75 / count)
    listed_first = observed["fraction_lo_arm_listed_first_over_20000_seeds"]
    assert abs(low_first / count - listed_first) < 4 * 0.5 / math.sqrt(count)


@pytest.mark.parametrize("case", nameless("countdown", "cases", "nums", "target", "answer"))
def test_countdown_rewards_match_the_reference(case):
    env = envs.make("Countdown")
    env.reset(options={"nums": case["nums"], "target": case["target"]})
    _, reward, terminated, truncated, info = env.step(case["answer"])
    found = {
        "nums": env.problem.numbers,
        "target": env.problem.target,
        "answer": case["answer"],
        "reward": reward,
        "success": info["success"],
        "action_is_effective": info["effective"],
        "split": case.get("split"),
    }
    assert found == case | {"nums": tuple(case["nums"]), "split": case.get("split")}
    assert (terminated, truncated, info["valid"]) == (True, False, True)


def test_countdown_states_match_the_reference():
    facts = part("countdown", "facts")
    env = envs.make("Countdown")
    for answer, reward in (("2 + 5 - 3", 1), ("2 + 5 + 3", 0.1), ("4", 0)):
        start, _ = env.reset(options={"nums": [3, 5, 2], "target": 4})
        assert start == facts["state"].format(target=4, list=[3, 5, 2])
        assert env.step(answer)[0] == facts["after"].format(reward=reward)
    spec = env.env_spec
    assert (spec.max_turns, spec.max_actions_per_turn, spec.max_actions, spec.actions) == (1, 1, 1, ())


@pytest.mark.parametrize("case", nameless("countdown", "has_solution", "nums", "target"))
def test_countdown_finds_what_signs_alone_can_reach(case):
    assert set(case) <= {"nums", "target", "has_solution", "split"}
    assert arithmetic.signs_reach(case["nums"], case["target"]) == case["has_solution"]
    found = arithmetic.find_expression(case["nums"], case["target"], "+-")
    assert (found is not None) == case["has_solution"]


@pytest.mark.parametrize("case", nameless("metamathqa", "cases", "correct_answer"))
def test_metamathqa_matches_the_reference(case):
    assert set(case) <= {"correct_answer", "steps", "split"}
    env = envs.make("MetaMathQA", {"max_tries": 20})
    start, _ = env.reset(options={"question": "What is it?", "answer": case["correct_answer"]})
    for number, wanted in enumerate(case["steps"]):
        text, reward, terminated, truncated, info = env.step(wanted["answer"])
        found = {
            "answer": wanted["answer"],
            "observation": text.removeprefix(f"{start}\n"),  # Echoscope repeats the question
            "reward": reward,
            "done": terminated,
            "info": {"action_is_valid": info["valid"], "success": info["success"]},
        }
        assert wanted == found, f"step {number}"
        assert not truncated


def test_metamathqa_verdicts_match_the_reference():
    assert part("metamathqa", "facts", "observations") == [metamathqa.RIGHT, metamathqa.WRONG]


@pytest.mark.parametrize("case", nameless("metamathqa", "extract_answer", "response"))
def test_metamathqa_extracts_answers_as_the_reference(case):
    assert set(case) <= {"response", "extracted", "split"}
    assert metamathqa.extract_answer(case["response"]) == case["extracted"]


def shop(**settings):
    """A generated shop, on its first page with the first goal."""
    env = envs.make("WebShop", settings)
    env.reset(seed=0, options={"goal": 0})
    return env


@pytest.fixture
def webshop(monkeypatch):
    monkeypatch.delenv("ECHOSCOPE_WEBSHOP_DATA", raising=False)
    return part("webshop")


def test_webshop_splits_its_goals_as_the_reference(webshop):
    written = dict(clause.strip().split(": ", 1) for clause in webshop["goal_split"].split(";")[:3])
    ours = {"test": "test", "val": "validation", "train": "train"}
    for goals in (6910, 12087):
        for seed in (0, 7, 499, 500, 1499, 10_000, 123_456):
            for name, split in ours.items():
                wanted = evaluate(written[name], seed=seed, n_goals=goals)
                assert catalogue.place(seed, split, goals) == wanted, (name, written[name])
    assert "random.Random(42) permutation" in webshop["goal_split"]


def evaluate(formula, **values):
    """The value of a formula of names, whole numbers, %, + and - from the golden file."""
    for name, value in values.items():
        formula = re.sub(rf"\b{name}\b", str(value), formula)
    assert re.fullmatch(r"[\d\s%+()-]+", formula), formula
    return eval(formula)


def test_webshop_has_the_actions_of_the_reference_and_no_others(webshop):
    search, click, _ = webshop["actions"]
    env = shop()
    assert env.available_actions == [search.split(" (")[0]]
    for anything_else in ("tea", "click[back to search]", "search[]", "buy[tea]"):
        before = env.render()
        assert env.step(anything_else)[:3] == (before, 0.0, False)
    assert env.step("search[tea]")[4]["valid"]
    assert not env.step("search[tea]")[4]["valid"]
    assert "lower-cased" in click
    assert env.step("CLICK[Back To Search]")[4]["valid"]


def test_webshop_rewards_match_the_formula_of_the_reference(webshop):
    rules = webshop["reward"]
    assert rules["formula"] == (
        "r_type * (n_attr_matches + n_option_matches + price_ok) / (n_goal_attributes + n_goal_options + 1)"
    )
    assert "> 85" in rules["attr_match"]
    assert "> 85" in rules["option_match"]
    assert ALIKE == 85
    shelf = generated.catalogue()
    for number in range(0, shelf.goals, 101):
        goal = shelf.goal(number)
        for product in shelf.products[::37]:
            for chosen in ((), goal.options, tuple(values[0] for values in product.options.values())):
                found = score(product, chosen, goal)
                price_ok = product.price <= goal.price_limit
                points = found.attributes + found.options + price_ok
                share = points / (len(goal.attributes) + len(goal.options) + 1)
                assert found.r_type in (1.0, 0.5, 0.1, 0.0)
                assert found.total == pytest.approx(found.r_type * share)


def test_webshop_succeeds_exactly_at_reward_one(webshop):
    assert webshop["success"].startswith("reward == 1 exactly")
    seen = set()
    for careful in (True, False):
        env = shop()
        terminated = False
        while not terminated:
            action = env.hint().actions[0]
            if not careful and "click[buy now]" in env.available_actions:
                action = "click[buy now]"
            _, paid, terminated, _, info = env.step(action)
            assert info["success"] == (paid == 1)
            assert terminated or paid == 0
        seen.add(info["success"])
    assert seen == {True, False}


def test_webshop_hides_the_next_link_on_the_last_page(webshop):
    assert webshop["hidden_action_removal"] == (
        "if the actions are exactly [back to search, < prev, next >] then next > is removed"
    )
    env = shop()
    env.step("search[tea]")
    while not env.end_of_page:
        assert "click[next >]" in env.available_actions
        env.step("click[next >]")
    assert env.available_actions == ["click[back to search]", "click[< prev]"]


def test_webshop_states_have_the_order_of_the_reference(webshop):
    assert '" [SEP] "-joined visible text' in webshop["state_text"]
    hints = [f"Hint {number}." for number in range(9)]
    env = shop(hints="\n".join(hints))
    first = env.render().split("\n")
    assert first[0] == env.goal.text + "."
    assert first[1:-1] == hints
    env.step("search[tea]")
    page, *recorded, offer = env.render().split("\n")
    assert recorded == hints
    assert page.startswith(f"Instruction: [SEP] {env.goal.text} [SEP] Back to Search [SEP] ")
    assert page.endswith(".")
    assert offer.endswith(": " + ", ".join(env.available_actions) + ".")


def test_webshop_has_the_budget_of_the_reference(webshop):
    numbers = re.match(
        r"max_turn (\d+), max_actions_per_turn (\d+), max_actions_per_traj (\d+)", webshop["shipped_config"]
    )
    spec = envs.spec("WebShop")
    assert [int(number) for number in numbers.groups()] == [
        spec.max_turns,
        spec.max_actions_per_turn,
        spec.max_actions,
    ]
