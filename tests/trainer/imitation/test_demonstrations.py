"""Demonstrations: true thoughts, winning solver play, imperfections that are played and masked."""

import hashlib
import json

import numpy as np
import pytest

import envs
from envs.registry import BUILT_IN
from tests.envs.plugins import offering
from trainer.cli import main
from trainer.config.run import EnvironmentConfig, RolloutConfig, RunConfig
from trainer.imitation.demonstration_files import demonstration_records
from trainer.imitation.demonstrations import demonstrate, response_text, single_state_demonstration
from trainer.imitation.demonstrators import DEMONSTRATORS, demonstrator_of, narrate_hint
from trainer.policy.chat_format import SYSTEM
from trainer.rollout.response_parser import parse_response

ENVIRONMENTS = list(BUILT_IN)
PINNED = {
    "Sokoban": "d7368db1e50522bc",
    "FrozenLake": "69a559962a183e51",
    "Bandit": "896a6cbe57b95103",
}


def config(env_name):
    return main.default_config_of(env_name)


def shown(chat, env_name, seed, noise=0.0, slip_share=0.0):
    return demonstrate(config(env_name), chat, seed, noise=noise, slip_share=slip_share, context=100_000)


@pytest.mark.parametrize("env_name", ENVIRONMENTS)
def test_a_narrator_follows_the_format_and_its_own_advice(env_name):
    for seed in range(12):
        env = envs.make(env_name)
        env.reset(seed=seed)
        before = env.render()
        limit = env.env_spec.max_actions_per_turn
        plan = demonstrator_of(env).narrate(env, limit)
        assert env.render() == before, "thinking ahead changes nothing"
        parsed = parse_response(response_text(plan), think=True, max_actions=limit)
        assert (parsed.thought, list(parsed.actions), parsed.problem) == (plan.thought, plan.actions, None)
        assert plan.actions[0] in env.hint().actions
        if env.env_spec.actions:
            assert set(plan.actions) <= set(env.env_spec.actions)
        else:
            assert plan.actions[0] in plan.thought or "[" in plan.actions[0]


@pytest.mark.parametrize("env_name", PINNED)
def test_demonstrations_of_the_shipped_policy_are_pinned(chat, env_name):
    """A change here requires the policy to be rebuilt: `python -m trainer build-pocket`."""
    rollout = RolloutConfig(max_actions_per_turn=2 if env_name == "FrozenLake" else 5)
    task = RunConfig(environment=EnvironmentConfig(name=env_name), rollout=rollout)
    taught = [demonstrate(task, chat, seed, noise=0.3, slip_share=0.3, context=8192) for seed in range(30)]
    taught += [single_state_demonstration(task, chat, seed) for seed in range(30)]
    texts = [(turn.thought, turn.answer) for d in taught for turn in d.trajectory.turns]
    lessons = [
        chat.decode([i for i, own in zip(t.ids, t.sampled, strict=True) if own])
        for t in (d.trajectory for d in taught[30:])
    ]
    assert hashlib.sha256(json.dumps([texts, lessons]).encode()).hexdigest()[:16] == PINNED[env_name]


@pytest.mark.parametrize("env_name", ["Sokoban", "LargeSokoban", "FrozenLake", "Countdown", "MetaMathQA"])
def test_the_textual_hint_is_an_optimal_plan(env_name):
    for seed in range(12):
        env = envs.make(env_name)
        env.reset(seed=seed)
        limit = env.env_spec.max_actions_per_turn
        hint, plan = env.hint(), narrate_hint(env, limit)
        if hint.distance is None:
            assert plan.thought == f"The best play is worth {hint.value:.2g}. Next: {plan.actions[0]}."
            assert len(plan.actions) == 1
            continue
        assert plan.thought.startswith(f"{hint.distance} action")
        assert len(plan.actions) == min(limit, hint.distance)
        for action in plan.actions:
            env.step(action)
        assert env.hint().distance == hint.distance - len(plan.actions)


@pytest.mark.parametrize("env_name", ENVIRONMENTS)
def test_slips_are_valid_actions_and_rarely_the_best(env_name):
    rng, good, tries = np.random.default_rng(0), 0, 0
    for seed in range(30):
        env = envs.make(env_name)
        env.reset(seed=seed)
        best = env.hint().actions
        slip = demonstrator_of(env).slip(env, rng)
        answer = f"so</think><answer>{slip}</answer>"
        assert parse_response(answer, think=True, max_actions=1).actions == (slip,)
        assert env.step(slip)[4]["valid"]
        tries, good = tries + 1, good + (slip in best)
    assert good < 0.9 * tries if env_name in ("Bandit", "BanditRev", "BanditTest") else good < 0.7 * tries


@pytest.mark.parametrize("env_name", ["Countdown", "MetaMathQA", "WebShop"])
def test_noise_and_slips_apply_to_free_text_too(chat, env_name):
    clean = [shown(chat, env_name, seed) for seed in range(8)]
    noisy = [shown(chat, env_name, seed, noise=1.0) for seed in range(8)]
    slipped = [shown(chat, env_name, seed, slip_share=1.0) for seed in range(8)]
    assert all(d.trajectory.success for d in clean)
    assert sum(d.trajectory.success for d in noisy) < 8
    first = [(n.trajectory.turns[0], c.trajectory.turns[0]) for n, c in zip(noisy, clean, strict=True)]
    assert all(n.thought == c.thought for n, c in first)
    assert sum(n.answer != c.answer for n, c in first) >= 4
    assert all(d.taught == frozenset() for d in slipped)


@pytest.mark.parametrize("env_name", ENVIRONMENTS)
def test_a_lesson_covers_one_state_of_every_environment(chat, env_name):
    taught = [single_state_demonstration(config(env_name), chat, seed) for seed in range(6)]
    assert any(d.taught for d in taught)
    assert [d.trajectory.ids for d in taught] == [
        single_state_demonstration(config(env_name), chat, s).trajectory.ids for s in range(6)
    ]


def test_the_facts_of_a_sokoban_thought_match_the_board():
    for seed in range(20):
        env = envs.make("Sokoban")
        env.reset(seed=seed)
        places = {}
        for row, line in enumerate(env.board().rows, start=1):
            for column, sign in enumerate(line, start=1):
                places.setdefault(sign, []).append(f"{row},{column}")
        thought = DEMONSTRATORS["Sokoban"].narrate(env, 5).thought
        assert f"I am at {(places.get('@') or places.get('+'))[0]}." in thought
        assert f"Box {places['$'][0]}." in thought


def test_a_faultless_sokoban_demonstration_solves_and_is_trained_on_fully(chat):
    solved = [shown(chat, "Sokoban", seed) for seed in range(12)]
    assert all(d.trajectory.success for d in solved)
    assert all(d.taught == frozenset(range(len(d.trajectory.turns))) for d in solved)
    assert all(turn.format_valid for d in solved for turn in d.trajectory.turns)


def test_the_best_play_of_a_bandit_pulls_the_high_arm(chat):
    assert all(shown(chat, "Bandit", seed).trajectory.success for seed in range(8))


def test_slips_are_played_and_not_trained_on(chat):
    found = [shown(chat, "Sokoban", seed, slip_share=0.5) for seed in range(12)]
    assert any(len(d.taught) < len(d.trajectory.turns) for d in found)
    assert any(d.taught for d in found)
    assert all(d.taught <= set(range(len(d.trajectory.turns))) for d in found)


def test_noise_makes_trained_answers_contradict_the_thought(chat):
    noisy = [shown(chat, "Sokoban", seed, noise=1.0) for seed in range(12)]
    clean = [shown(chat, "Sokoban", seed) for seed in range(12)]
    first = [(n.trajectory.turns[0], c.trajectory.turns[0]) for n, c in zip(noisy, clean, strict=True)]
    assert all(n.thought == c.thought for n, c in first)
    assert sum(n.answer != c.answer for n, c in first) > 6
    assert all(d.taught for d in noisy)


@pytest.mark.parametrize("env_name", ENVIRONMENTS)
def test_a_demonstration_is_the_same_for_the_same_seed(chat, env_name):
    one, other = (shown(chat, env_name, 5, noise=0.3, slip_share=0.3) for _ in range(2))
    assert one.trajectory.ids == other.trajectory.ids
    assert one.taught == other.taught
    others = [shown(chat, env_name, seed, noise=0.3, slip_share=0.3).trajectory.ids for seed in range(6, 14)]
    assert any(one.trajectory.ids != ids for ids in others)


@pytest.mark.parametrize("env_name", ENVIRONMENTS)
def test_the_answer_and_its_end_token_are_marked_as_sampled(chat, env_name):
    trajectory = shown(chat, env_name, 1).trajectory
    for turn in trajectory.turns:
        ids = [i for i, number in zip(trajectory.ids, trajectory.turn_of, strict=True) if number == turn.turn]
        assert ids[-1] == chat.eos_id
        assert chat.decode(ids) == turn.response


@pytest.mark.parametrize("env_name", ["Sokoban", "Bandit", "Countdown"])
def test_a_demonstration_file_has_the_dialogue_and_its_seeds(tmp_path, capsys, env_name):
    arguments = ["demonstrate", "--environment", env_name, "--count", "5", "--noise", "0.2", "--mistake-rate", "0.2"]
    for name in ("one", "other"):
        assert main.main([*arguments, "--seed", "3", "--out", str(tmp_path / name)]) == 0
    assert "5 episodes of " + env_name in capsys.readouterr().out
    text = (tmp_path / "one").read_text(encoding="utf-8")
    assert text == (tmp_path / "other").read_text(encoding="utf-8")
    found = [json.loads(line) for line in text.splitlines()]
    assert len({record["seed"] for record in found}) == 5
    for record in found:
        env = envs.make(env_name)
        env.reset(seed=record["initial_state_seed"], options={"dynamics_seed": record["dynamics_seed"]})
        assert env.render() in record["turns"][0]["state"]
        total, left = 0.0, config(env_name).rollout.max_actions
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


def test_an_environment_without_advice_cannot_be_demonstrated(tmp_path, capsys):
    with offering(tmp_path, Silent="tests.envs.broken_env:Silent"):
        assert main.main(["demonstrate", "--environment", "Silent", "--out", str(tmp_path / "out")]) == 1
    assert "Silent cannot be demonstrated: its hint() named no action in 100 starts" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (["--environment", "Chess"], "unknown environment 'Chess'; choose one of"),
        (["--noise", "1.5"], "--noise is a share from 0 to 1, not 1.5"),
        (["--count", "0"], "--count must be at least 1, not 0"),
        (["--seed", "-1"], "--seed must be at least 0, not -1"),
        (["--set", "environment.settings={boxes: 99}"], "boxes"),
    ],
)
def test_invalid_demonstration_settings_are_reported(tmp_path, capsys, more, complaint):
    arguments = ["demonstrate", "--environment", "Sokoban", "--out", str(tmp_path / "out"), *more]
    assert main.main(arguments) == 2
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_demonstrations_continue_from_an_offset():
    run = config("Sokoban")
    one = demonstration_records(run, 1, noise=0, slips=0)
    assert [next(one)["number"] for _ in range(4)] == [0, 1, 2, 3]
