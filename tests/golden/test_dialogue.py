"""Parser and whole turns against recordings of the reference (shared/golden/environments.json)."""

import itertools
import json
import os
from pathlib import Path

import pytest

import envs
from envs import frozen_lake
from tests.trainer import tiny
from trainer.algorithms.rewards import is_format_valid
from trainer.config.run import RunConfig
from trainer.evaluation.suite_runner import group_plans
from trainer.policy.chat_format import ANSWER, THINK, ChatFormat
from trainer.rollout.response_parser import ACTION_SEPARATOR, parse_response
from trainer.seeds import Purpose, derive

VARIABLE = "ECHOSCOPE_GOLDEN_ENVIRONMENTS"
DEFAULT = Path(__file__).parents[3] / "shared" / "golden" / "environments.json"

path = Path(os.environ.get(VARIABLE) or DEFAULT)
if not path.exists() and VARIABLE not in os.environ:
    pytest.skip(f"no golden file at {path}; set {VARIABLE} to one", allow_module_level=True)
golden = json.loads(path.read_text(encoding="utf-8"))
parser, manager = golden.get("parser", {}), golden.get("manager", {})

ENVIRONMENTS = {
    "SimpleSokoban": ("Sokoban", {}),
    "LargerSokoban": ("LargeSokoban", {}),
    "SokobanDifferentGridVocab": ("Sokoban", {"vocabulary": "letters"}),
    "FrozenLake": ("FrozenLake", {}),
    "Bandit": ("Bandit", {"low_reward": 0.1}),  # what the reference pays; ours pays what the paper says
}


def test_every_part_of_the_two_sections_is_known():
    assert set(parser) <= {"facts", "cases"}
    assert set(manager) <= {"cases", "seeding"}
    assert {case["tag"] for case in manager.get("cases", [])} <= set(ENVIRONMENTS)
    if not parser and not manager:
        pytest.skip(f"{path.name} holds neither parser nor manager")


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=ascii(case["raw_generation"])) for case in parser.get("cases", [])]
)
def test_responses_are_parsed_like_the_reference(case):
    assert case["action_sep"] == ACTION_SEPARATOR
    think = case["enable_think"]
    assert case["text_parsed"] == (THINK if think else ANSWER) + case["raw_generation"]
    parsed = parse_response(case["raw_generation"], think=think, max_actions=case["max_actions_per_turn"])
    assert parsed.text == case["llm_response"]
    assert list(parsed.actions) == case["actions"]

    names = {name.lower(): name for name in envs.spec("Sokoban").actions}
    known = [names[action.lower()] for action in parsed.actions if action.lower() in names]
    assert known == case["valid_actions_for_sokoban"]
    valid = is_format_valid(
        structured=parsed.structured,
        known_actions=len(known),
        unknown_actions=len(parsed.actions) - len(known),
        rule="actions",
    )
    assert (0.0 if valid else -0.1) == case["format_penalty_in_sokoban"]


def beginnings(case):
    """Seeds and options of `reset` from which the case may have been played: where a start is not written down, or was
    drawn from another generator, what happened tells which."""
    if "Sokoban" in case["tag"]:
        yield 0, {"room": case["start_text"]}
    elif case["tag"] == "Bandit":
        for seed, dynamics in itertools.product(range(20), range(20)):
            yield seed, {"dynamics_seed": dynamics}
    else:
        board = case["turns"][0]["next_state"].translate(str.maketrans("PX√", "_OG"))
        for cell in range(len(board)):
            if board[cell] == "_":
                text = board[:cell] + "P" + board[cell + 1 :]
                if reachable(case, frozen_lake.parse(text)):
                    for dynamics in range(100_000):
                        yield 0, {"map": text, "dynamics_seed": dynamics}


def reachable(case, lake):
    """Whether some slips lead from the lake's start through the states of the case."""
    cells = {lake.start}
    for turn in case["turns"]:
        for number in turn["executed"]:
            cells = {end for cell in cells for end in lake.outcomes(cell, number - 1, slippery=True)}
        cells = {cell for cell in cells if lake.draw(cell) == turn["next_state"]}
    return bool(cells)


def plays_alike(env, case):
    """Whether the executed actions lead this environment through the states of the case."""
    for turn in case["turns"]:
        for number in turn["executed"]:
            name = env.env_spec.actions[number - 1]
            _, _, terminated, truncated, _ = env.step(name)
            if (terminated or truncated) and turn["still_active"]:
                return False
        if turn["executed"] and env.render() != turn["next_state"]:
            return False
    return True


def beginning(case):
    """The first seed and options that reproduce the case."""
    name, settings = ENVIRONMENTS[case["tag"]]
    env = envs.make(name, settings)
    for seed, options in beginnings(case):
        env.reset(seed=seed, options=options)
        if plays_alike(env, case):
            return seed, options
    pytest.fail("no draw of the environment's dynamics goes through the states of this case")


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in manager.get("cases", [])])
def test_whole_turns_match_the_reference(case):
    name, settings = ENVIRONMENTS[case["tag"]]
    spec = envs.spec(name)
    run = RunConfig.model_validate(
        {
            "environment": {"name": name, "settings": settings},
            "rollout": {
                "max_turns": 100,
                "max_actions": spec.max_actions,
                "max_actions_per_turn": spec.max_actions_per_turn,
            },
        }
    )
    seed, options = beginning(case)
    chat = ChatFormat(tiny.styles()["pocket"], think=True)
    episode = tiny.episode(chat, run, seed=seed, options=options)
    numbers = {action: number for number, action in enumerate(episode.env.env_spec.actions, start=1)}
    for wanted in case["turns"]:
        episode.prompt()
        turn = episode.receive(tiny.sampled(chat, wanted["raw_generation"]))
        assert [numbers[a.name] for a in turn.actions if a.status == "executed"] == wanted["executed"]
        assert turn.terms["environment"] == pytest.approx(wanted["reward"])
        # The reference keeps the penalty out of the turn and adds it to the trajectory's score at the end; here it is a
        # term of the turn that broke the format. The sum over the trajectory is the same.
        penalties = sum(turn.terms.get("format", 0.0) for turn in episode.trajectory.turns)
        assert penalties == pytest.approx(wanted["penalty_total"])
        assert episode.actions_left == wanted["actions_left"]
        assert (not episode.ended) == wanted["still_active"]
        # The reference calls every end "terminated", and those by its caps "truncated" as well; here they differ.
        if wanted["terminated"] and not wanted["truncated"]:
            assert episode.trajectory.end == "terminated"
        elif wanted["terminated"]:
            assert episode.trajectory.end == ("terminated" if case["tag"] == "Bandit" else "actions")
        if "Sokoban" in case["tag"] or wanted["executed"]:
            assert episode.env.render() == wanted["next_state"]
    # The reference's effective and valid rates are counted by turns, here by executed actions: not compared.
    assert episode.trajectory.success == case["metrics"][f"{case['tag']}/success"]
    assert episode.trajectory.actions == case["metrics"][f"{case['tag']}/num_actions"]


def test_groups_share_a_start_evaluations_repeat_and_training_does_not():
    seeding = manager.get("seeding")
    if seeding is None:
        pytest.skip(f"{path.name} has no manager.seeding")

    # The reference counts seeds upwards from a base, so that training and evaluation overlap as soon as a run is long
    # enough; here they are derived, and only the pattern is the same.
    def pattern(seeds):
        return [seeds.index(seed) for seed in seeds]

    ours = [derive(0, Purpose.INITIAL_STATE, 1, group) for group in range(3) for _ in range(2)]
    later = [derive(0, Purpose.INITIAL_STATE, 2, group) for group in range(3) for _ in range(2)]
    assert pattern(ours) == pattern(seeding["train_first"])
    assert pattern(ours + later) == pattern(seeding["train_first"] + seeding["train_second"])
    evaluation_seeds = [[plan.seed for plan in group_plans(RunConfig(), iteration)] for iteration in (0, 10)]
    assert (evaluation_seeds[0] == evaluation_seeds[1]) == (seeding["val_first"] == seeding["val_second"])
