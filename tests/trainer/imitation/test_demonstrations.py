"""Demonstrations: thoughts match the state, the solver's play succeeds, mistakes are played but marked."""

import hashlib
import json
import re
from collections import Counter

import numpy as np
import pytest

import envs
from envs import registry
from envs.demonstrators import (
    DEMONSTRATORS,
    answer_to_another_question,
    at,
    find_cells,
    find_demonstrator,
    plan_from_hint,
)
from envs.registry import BUILT_IN
from envs.support.arithmetic import evaluate
from tests.envs.plugins import offering
from tests.tiers import nightly_but
from trainer.cli import main
from trainer.config.rollout import SYSTEM
from trainer.config.run import EnvironmentConfig, RolloutConfig, RunConfig
from trainer.imitation.courses import COURSES
from trainer.imitation.demonstration_files import demonstration_records
from trainer.imitation.demonstrations import demonstrate, response_text, single_state_demonstration
from trainer.policy.chat_format import ChatFormat
from trainer.rollout.response_parser import parse_response

ENVIRONMENTS = list(BUILT_IN)
QUICK = set(ENVIRONMENTS) - {"Boxoban", "ToolPython", "ToolMCP"}
"""Without those that read many levels or start a process for each game."""
PINNED = {
    "Sokoban": "d7368db1e50522bc",
    "FrozenLake": "69a559962a183e51",
    "Bandit": "896a6cbe57b95103",
}


def config(environment):
    return main.default_config(environment)


def demonstrated(chat, environment, seed, noise=0.0, mistake_rate=0.0):
    return demonstrate(config(environment), chat, seed, noise=noise, mistake_rate=mistake_rate, context=100_000)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_a_plan_keeps_the_format_and_follows_the_hint(environment, chat):
    for seed in range(12):
        env = envs.make(environment)
        env.reset(seed=seed)
        before = env.render()
        limit = env.env_spec.max_actions_per_turn
        plan = find_demonstrator(env).plan(env, limit)
        assert env.render() == before, "planning changes nothing"
        parsed = parse_response(response_text(plan, chat), think=True, max_actions=limit)
        assert (parsed.thought, list(parsed.actions), parsed.problem) == (plan.thought, plan.actions, None)
        assert plan.actions[0] in env.hint().actions
        if env.env_spec.actions:
            assert set(plan.actions) <= set(env.env_spec.actions)
        else:
            assert plan.actions[0] in plan.thought or "[" in plan.actions[0]


@pytest.mark.parametrize("environment", ["Sokoban", "Bandit", "ToolCalculator"])
def test_without_thoughts_demonstrations_are_answers_that_can_be_read(environment, chat):
    silent = config(environment)
    silent = silent.model_copy(update={"rollout": silent.rollout.model_copy(update={"think": False})})
    answering = ChatFormat(chat.tokenizer, think=False)
    played = [
        demonstrate(silent, answering, seed, noise=0.0, mistake_rate=0.0, context=8192).trajectory for seed in range(6)
    ]
    assert np.mean([trajectory.success for trajectory in played]) > 0.6
    turns = [turn for trajectory in played for turn in trajectory.turns]
    assert {turn.thought for turn in turns} == {""}
    assert all(turn.format_valid for turn in turns)
    record = next(demonstration_records(silent, 0, noise=0.0, mistake_rate=0.0))
    assert record["success"]
    assert "<think>" not in str(record["messages"][1:])


@pytest.mark.parametrize("environment", PINNED)
def test_the_demonstrations_of_the_shipped_policy_stay_the_same(chat, environment):
    """After a change here the policy must be rebuilt: `python -m trainer build-pocket`."""
    rollout = RolloutConfig(max_actions_per_turn=2 if environment == "FrozenLake" else 5)
    task = RunConfig(environment=EnvironmentConfig(name=environment), rollout=rollout)
    own = COURSES["general"].demonstrator_for(0)
    taught = [
        demonstrate(task, chat, seed, noise=0.3, mistake_rate=0.3, context=8192, demonstrator=own) for seed in range(30)
    ]
    taught += [single_state_demonstration(task, chat, seed, own) for seed in range(30)]
    turns = [(turn.thought, turn.answer) for d in taught for turn in d.trajectory.turns]
    lessons = [
        chat.decode([i for i, own in zip(t.ids, t.sampled, strict=True) if own])
        for t in (d.trajectory for d in taught[30:])
    ]
    assert hashlib.sha256(json.dumps([turns, lessons]).encode()).hexdigest()[:16] == PINNED[environment]


@pytest.mark.parametrize("environment", ["Sokoban", "LargeSokoban", "FrozenLake", "Countdown", "MetaMathQA"])
def test_the_plan_of_a_verbalised_hint_is_optimal(environment):
    for seed in range(12):
        env = envs.make(environment)
        env.reset(seed=seed)
        limit = env.env_spec.max_actions_per_turn
        hint, plan = env.hint(), plan_from_hint(env, limit)
        if hint.distance is None:
            assert plan.thought == f"The best play is worth {hint.value:.2g}. Next: {plan.actions[0]}."
            assert len(plan.actions) == 1
            continue
        assert plan.thought.startswith(f"{hint.distance} action")
        assert len(plan.actions) == min(limit, hint.distance)
        for action in plan.actions:
            env.step(action)
        assert env.hint().distance == hint.distance - len(plan.actions)


@pytest.mark.parametrize(
    ("environment", "settings"), [("Sokoban", {}), ("LargeSokoban", {}), ("FrozenLake", {"slippery": False})]
)
def test_a_thought_names_every_cell_that_its_actions_pass(environment, settings):
    passed = pushed = 0
    for seed in range(20):
        env = envs.make(environment, settings)
        env.reset(seed=seed)
        plan = find_demonstrator(env).plan(env, 8)
        claims = registry.read_claims(environment, plan.thought, env.board())
        assert all(claim.true for claim in claims)
        assert any(claim.kind == "direction" for claim in claims) == (environment != "LargeSokoban")
        way = re.findall(r"(?<!Push )\b(Up|Down|Left|Right) to (\d+,\d+)\.", plan.thought)
        assert [action for action, _ in way] == plan.actions
        boxes = set(find_cells(env.board(), "$*"))
        for action, cell in way:
            env.step(action)
            assert [at(player) for player in find_cells(env.board(), "@+")] == [cell]
        left = boxes - set(find_cells(env.board(), "$*"))
        moved = set(find_cells(env.board(), "$*")) - boxes
        named = re.findall(r"Push \w+ from \d+,\d+ to (\d+,\d+)\.", plan.thought)
        assert {at(box) for box in moved} <= set(named)
        assert bool(named) == bool(left)
        passed, pushed = passed + len(way), pushed + len(named)
    assert passed > 40
    assert bool(pushed) == ("Sokoban" in environment)


@pytest.mark.parametrize("environment", nightly_but(ENVIRONMENTS, QUICK))
def test_mistakes_are_actions_the_environment_reads_and_rarely_the_best(environment):
    rng, good, tries = np.random.default_rng(0), 0, 0
    for seed in range(30):
        env = envs.make(environment)
        env.reset(seed=seed)
        best = env.hint().actions
        mistake = find_demonstrator(env).mistake(env, rng)
        answer = f"so</think><answer>{mistake}</answer>"
        assert parse_response(answer, think=True, max_actions=1).actions == (mistake,)
        assert env.step(mistake)[4]["valid"]
        tries, good = tries + 1, good + (mistake in best)
    assert good < 0.9 * tries if environment in ("Bandit", "BanditRev", "BanditTest") else good < 0.7 * tries


@pytest.mark.parametrize("environment", ["Countdown", "MetaMathQA", "WebShop"])
def test_noise_and_mistakes_apply_to_free_text_too(chat, environment):
    clean = [demonstrated(chat, environment, seed) for seed in range(8)]
    noisy = [demonstrated(chat, environment, seed, noise=1.0) for seed in range(8)]
    mistaken = [demonstrated(chat, environment, seed, mistake_rate=1.0) for seed in range(8)]
    assert all(d.trajectory.success for d in clean)
    assert sum(d.trajectory.success for d in noisy) < 8
    first = [(n.trajectory.turns[0], c.trajectory.turns[0]) for n, c in zip(noisy, clean, strict=True)]
    assert all(n.thought == c.thought for n, c in first)
    assert sum(n.answer != c.answer for n, c in first) >= 4
    assert all(d.taught == frozenset() for d in mistaken)


@pytest.mark.parametrize("environment", nightly_but(ENVIRONMENTS, QUICK))
def test_a_single_state_demonstration_exists_for_every_environment(chat, environment):
    taught = [single_state_demonstration(config(environment), chat, seed) for seed in range(6)]
    assert any(d.taught for d in taught)
    assert [d.trajectory.ids for d in taught] == [
        single_state_demonstration(config(environment), chat, s).trajectory.ids for s in range(6)
    ]


def test_the_facts_of_a_sokoban_thought_match_the_board():
    for seed in range(20):
        env = envs.make("Sokoban")
        env.reset(seed=seed)
        places = {}
        for row, line in enumerate(env.board().rows, start=1):
            for column, sign in enumerate(line, start=1):
                places.setdefault(sign, []).append(f"{row},{column}")
        thought = DEMONSTRATORS["Sokoban"].plan(env, 5).thought
        assert f"I am at {(places.get('@') or places.get('+'))[0]}." in thought
        assert f"Box {places['$'][0]}." in thought


def test_thoughts_on_two_numbers_try_operations_until_one_is_right():
    env = envs.make("Countdown", {"min_numbers": 2, "max_numbers": 2, "largest": 12, "min_target": 2})
    tries = Counter()
    for seed in range(60):
        env.reset(seed=seed)
        plan = DEMONSTRATORS["Countdown"].plan(env, 1)
        tried = re.findall(r"(\d+ [-+*/] \d+) = (\d+), (yes|no)\.", plan.thought)
        results = [evaluate(equation) for equation, _, _ in tried]
        assert results == [int(value) for _, value, _ in tried]
        assert [verdict == "yes" for _, _, verdict in tried] == [value == env.problem.target for value in results]
        assert [verdict for _, _, verdict in tried].count("yes") == 1
        assert tried[-1][0] == plan.actions[0]
        assert env.step(plan.actions[0])[1] == 1.0
        tries[len(tried)] += 1
    assert {1, 2, 3} <= tries.keys()


def test_a_demonstration_of_sokoban_without_mistakes_succeeds_and_is_taught_completely(chat):
    solved = [demonstrated(chat, "Sokoban", seed) for seed in range(12)]
    assert all(d.trajectory.success for d in solved)
    assert all(d.taught == frozenset(range(len(d.trajectory.turns))) for d in solved)
    assert all(turn.format_valid for d in solved for turn in d.trajectory.turns)


def test_the_best_play_of_a_bandit_pulls_the_high_arm(chat):
    assert all(demonstrated(chat, "Bandit", seed).trajectory.success for seed in range(8))


def test_mistakes_are_played_and_not_taught(chat):
    demonstrations = [demonstrated(chat, "Sokoban", seed, mistake_rate=0.5) for seed in range(12)]
    assert any(len(d.taught) < len(d.trajectory.turns) for d in demonstrations)
    assert any(d.taught for d in demonstrations)
    assert all(d.taught <= set(range(len(d.trajectory.turns))) for d in demonstrations)


def test_noise_makes_trained_answers_contradict_the_thought(chat):
    noisy = [demonstrated(chat, "Sokoban", seed, noise=1.0) for seed in range(12)]
    clean = [demonstrated(chat, "Sokoban", seed) for seed in range(12)]
    first = [(n.trajectory.turns[0], c.trajectory.turns[0]) for n, c in zip(noisy, clean, strict=True)]
    assert all(n.thought == c.thought for n, c in first)
    assert sum(n.answer != c.answer for n, c in first) > 6
    assert all(d.taught for d in noisy)


@pytest.mark.parametrize("environment", nightly_but(ENVIRONMENTS, QUICK))
def test_a_demonstration_is_the_same_for_the_same_seed(chat, environment):
    one, other = (demonstrated(chat, environment, 5, noise=0.3, mistake_rate=0.3) for _ in range(2))
    assert one.trajectory.ids == other.trajectory.ids
    assert one.taught == other.taught
    others = [
        demonstrated(chat, environment, seed, noise=0.3, mistake_rate=0.3).trajectory.ids for seed in range(6, 14)
    ]
    assert any(one.trajectory.ids != ids for ids in others)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_the_answer_and_its_end_token_are_marked_as_sampled(chat, environment):
    trajectory = demonstrated(chat, environment, 1).trajectory
    for turn in trajectory.turns:
        ids = [i for i, number in zip(trajectory.ids, trajectory.turn_of, strict=True) if number == turn.turn]
        assert ids[-1] == chat.eos_id
        assert chat.decode(ids) == turn.response


@pytest.mark.parametrize("environment", ["Sokoban", "Bandit", "Countdown"])
def test_a_file_of_demonstrations_contains_the_dialogue_and_the_seeds_that_reproduce_it(tmp_path, capsys, environment):
    arguments = ["demonstrate", "--environment", environment, "--count", "5", "--noise", "0.2", "--mistake-rate", "0.2"]
    for name in ("one", "other"):
        assert main.main([*arguments, "--seed", "3", "--out", str(tmp_path / name)]) == 0
    assert "5 episodes of " + environment in capsys.readouterr().out
    text = (tmp_path / "one").read_text(encoding="utf-8")
    assert text == (tmp_path / "other").read_text(encoding="utf-8")
    demonstrations = [json.loads(line) for line in text.splitlines()]
    assert len({record["seed"] for record in demonstrations}) == 5
    for record in demonstrations:
        env = envs.make(environment)
        env.reset(seed=record["initial_state_seed"], options={"dynamics_seed": record["dynamics_seed"]})
        assert env.render() in record["turns"][0]["state"]
        total, left = 0.0, config(environment).rollout.max_actions
        for turn in record["turns"]:
            assert f"\n{env.render()}\n" in turn["state"]
            for action in turn["actions"][:left]:
                _, reward, over, *_, info = env.step(action)
                total, left = total + reward, left - 1
                if over:
                    break
        assert (info["success"], pytest.approx(total)) == (record["success"], record["total_reward"])
        system, first, answer, *_ = record["messages"]
        assert system == {"role": "system", "content": SYSTEM}
        assert first["content"].endswith(record["turns"][0]["state"])
        assert first["content"].startswith(env.env_spec.instruction)
        assert all(action in first["content"] for action in env.env_spec.actions)
        assert answer["content"].startswith(f"<think>{record['turns'][0]['thought']}</think><answer>")
        assert len(record["messages"]) == 1 + 2 * len(record["turns"])


def test_settings_and_budgets_of_demonstrations_can_be_changed(tmp_path):
    out = tmp_path / "lake.jsonl"
    change = ["--set", "environment.settings={size: 6, slippery: false}", "--set", "rollout.max_actions_per_turn=1"]
    assert main.main(["demonstrate", "--environment", "FrozenLake", "--count", "3", "--out", str(out), *change]) == 0
    for line in out.read_text().splitlines():
        record = json.loads(line)
        assert len(record["turns"][0]["state"].split("\n")) == 8
        assert all(len(turn["actions"]) == 1 for turn in record["turns"])


@pytest.mark.parametrize("system", ["Be brief.", ""])
def test_demonstrations_have_the_prompts_of_the_settings(tmp_path, system):
    out = tmp_path / "rooms.jsonl"
    change = ["--set", f"rollout.system={json.dumps(system)}", "--set", "rollout.format_line=paper"]
    assert main.main(["demonstrate", "--environment", "Sokoban", "--count", "1", "--out", str(out), *change]) == 0
    messages = json.loads(out.read_text())["messages"]
    assert [message["content"] for message in messages if message["role"] == "system"] == ([system] if system else [])
    first = next(message["content"] for message in messages if message["role"] == "user")
    assert first.startswith("This is a Sokoban puzzle.")


def records(run):
    return demonstration_records(run, 0, noise=0.0, mistake_rate=0.0)


def test_an_environment_without_advice_cannot_be_demonstrated(tmp_path, capsys):
    with offering(tmp_path, Silent="tests.envs.broken_env:Silent"):
        assert main.main(["demonstrate", "--environment", "Silent", "--out", str(tmp_path / "out")]) == 1
    assert (
        "Silent cannot be demonstrated: its hint() named no action in the initial states of 100 seeds"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--environment", "Chess"], "unknown environment 'Chess'; choose one of"),
        (["--noise", "1.5"], "--noise is a share from 0 to 1, not 1.5"),
        (["--count", "0"], "--count must be at least 1, not 0"),
        (["--seed", "-1"], "--seed must be at least 0, not -1"),
        (["--set", "environment.settings={boxes: 99}"], "boxes"),
    ],
)
def test_invalid_arguments_for_demonstrations_are_reported(tmp_path, capsys, more, message):
    arguments = ["demonstrate", "--environment", "Sokoban", "--out", str(tmp_path / "out"), *more]
    assert main.main(arguments) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_demonstrations_are_numbered_consecutively():
    run = config("Sokoban")
    one = demonstration_records(run, 1, noise=0, mistake_rate=0)
    assert [next(one)["number"] for _ in range(4)] == [0, 1, 2, 3]


def test_a_sudoku_thought_gives_the_reason_of_each_digit():
    env = envs.make("Sudoku")
    env.reset(seed=1)
    plan = find_demonstrator(env).plan(env, 3)
    assert plan.thought.count(": no other") == len(plan.actions) == 3
    for action in plan.actions:
        assert f"{action}: " in plan.thought
        assert env.step(action)[1] == pytest.approx(1 / 6)


@pytest.mark.parametrize("environment", ["Sudoku", "RubiksCube"])
def test_demonstrated_puzzles_are_solved(chat, environment):
    assert all(demonstrated(chat, environment, seed).trajectory.success for seed in range(10))


def test_a_plan_of_2048_knows_nothing_of_tiles_to_come(chat):
    """All members of a group plan alike, though their new tiles differ, and most demonstrations succeed."""
    plans = set()
    for member in range(8):
        env = envs.make("Game2048")
        env.reset(seed=3, options={"dynamics_seed": member})
        plans.add(tuple(find_demonstrator(env).plan(env, 5).actions))
    assert len(plans) == 1
    assert sum(demonstrated(chat, "Game2048", seed).trajectory.success for seed in range(10)) >= 6


def test_a_random_answer_of_an_environment_without_a_solver_makes_no_other(monkeypatch):
    env = envs.make("Gymnasium")
    env.reset(seed=1)
    assert env.hint() is None
    monkeypatch.setattr(envs, "make", None)
    assert answer_to_another_question(env, np.random.default_rng(1)) == ""
