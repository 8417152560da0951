"""Environment mixture of a run: shares, settings, budgets, metrics per environment."""

import re
from collections import Counter
from itertools import islice
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import envs
from tests.trainer import tiny
from tests.trainer.engines.scripted_sampler import ScriptedSampler
from tests.trainer.loops.test_train import events, run
from tests.trainer.rollout.test_runner import player
from trainer.algorithms.group_filter import FILTERS, FilterMethod, keep_groups, keep_within
from trainer.config.files import validation_errors
from trainer.config.run import RunConfig
from trainer.journal.events import Evaluation, GroupStarted, Metrics, TrajectoryFinished
from trainer.metrics.registry import get_spec
from trainer.rollout.environment_mix import (
    assign_groups,
    get_shares,
    interleave,
    success_by_environment,
    train_plans,
)
from trainer.rollout.runner import RolloutRequest
from trainer.rollout.trajectory import Trajectory, collate

MIXED = {
    "name": "Sokoban",
    "settings": {"size": 7},
    "instruction": "Push.",
    "mix": [
        {"name": "FrozenLake", "share": 0.25, "settings": {"size": "5", "slippery": "false"}, "max_turns": "3"},
        {"name": "Bandit", "share": 0.25},
    ],
}


def mixed(**environment):
    return RunConfig.model_validate({"environment": MIXED | environment})


def test_each_environment_has_its_share_settings_and_budgets():
    config = RunConfig.model_validate({"environment": MIXED, "rollout": {"max_turns": 8, "max_actions": 20}})
    sokoban, lake, bandit = get_shares(config)
    assert [task.name for task in get_shares(config)] == ["Sokoban", "FrozenLake", "Bandit"]
    assert [task.number for task in get_shares(config)] == [0, 1, 2]
    assert [task.share for task in get_shares(config)] == pytest.approx([0.5, 0.25, 0.25])
    assert sokoban.config.environment.settings == {"size": 7}
    assert sokoban.config.environment.instruction == "Push."
    assert sokoban.config.rollout == config.rollout
    assert lake.config.environment.settings == {"size": 5, "slippery": False}
    assert lake.config.environment.instruction is None
    assert (lake.config.rollout.max_turns, lake.config.rollout.max_actions) == (3, 10)
    assert (bandit.config.rollout.max_turns, bandit.config.rollout.max_actions) == (1, 1)
    for task in get_shares(config):
        assert task.config.environment.mix == []
        assert task.config.rollout.groups == config.rollout.groups
        again = RunConfig.model_validate(task.config.model_dump())
        assert again == task.config, "a task's settings are valid settings"


def test_a_run_in_one_environment_has_one_share_with_its_own_settings():
    config = RunConfig.model_validate({"environment": {"name": "FrozenLake"}, "rollout": {"max_turns": 7}})
    (only,) = get_shares(config)
    assert (only.number, only.share, only.config) == (0, 1, config)
    assert success_by_environment([Trajectory(id="t", group=0, member=0)], [only]) == {}


@pytest.mark.parametrize(
    "wrong, message",
    [
        ([{"name": "Sokoban", "share": 0.5}], "lists Sokoban, which is environment.name already"),
        ([{"name": "Bandit", "share": 0.2}] * 2, "lists Bandit twice"),
        ([{"name": "Chess", "share": 0.5}], "unknown environment 'Chess'"),
        ([{"name": "Bandit", "share": 0}], "must be greater than 0"),
        ([{"name": "Bandit", "share": float("nan")}], "must be less than 1"),
        ([{"name": "Bandit"}], "mix.0.share: is required"),
        ([{"name": "Bandit", "share": 0.6}, {"name": "FrozenLake", "share": 0.4}], "leaves no share for Sokoban"),
        ([{"name": "FrozenLake", "share": 0.5, "settings": {"size": 99}}], "FrozenLake: size: must be at most"),
        ([{"name": "FrozenLake", "share": 0.5, "settings": {"sise": 5}}], "sise: there is no setting of this name"),
        ([{"name": "FrozenLake", "share": 0.5, "turns": 5}], "mix.0.turns: there is no setting of this name"),
        ([{"name": "FrozenLake", "share": 0.5, "max_turns": 0}], "mix.0.max_turns: must be greater than 0"),
        ([{"name": "FrozenLake", "share": 0.5, "max_turns": 101}], "mix.0.max_turns: must be at most 100"),
        (["Bandit"], "mix.0: must be a mapping of settings, not 'Bandit'"),
        ("Bandit", "mix: must be a list, not 'Bandit'"),
    ],
)
def test_invalid_mixtures_are_refused_with_the_reason(wrong, message):
    with pytest.raises(ValidationError) as error:
        RunConfig.model_validate({"environment": {"mix": wrong}})
    assert re.search(message, "; ".join(f"{where}: {text}" for where, text in validation_errors(error.value)))


def test_equivalent_settings_are_the_same_run():
    lake = {"name": "FrozenLake", "share": 0.25}
    typed = mixed(mix=[lake | {"settings": {"size": 5, "slippery": False}}])
    posted = mixed(mix=[lake | {"share": "0.25", "settings": {"size": "5", "slippery": "off"}}])
    assert typed.digest() == posted.digest()
    assert RunConfig.model_validate(typed.model_dump(mode="json")) == typed


def test_the_title_names_every_environment():
    assert mixed().title().startswith("Sokoban + FrozenLake + Bandit · ")


shares = st.lists(st.integers(1, 20), min_size=1, max_size=5).map(lambda parts: [part / sum(parts) for part in parts])


@given(shares, st.integers(1, 40), st.integers(1, 10_000))
def test_groups_of_an_iteration_are_the_shares_rounded_down_or_up(shares, groups, iteration):
    dealt = assign_groups(shares, groups, iteration)
    assert len(dealt) == groups
    assert dealt == sorted(dealt)
    for task, share in enumerate(shares):
        assert abs(dealt.count(task) - share * groups) < 1 + 1e-9
    assert assign_groups(shares, groups, iteration) == dealt


@given(shares, st.integers(1, 9), st.integers(20, 60))
def test_the_shares_hold_over_the_iterations(shares, groups, iterations):
    played = Counter(
        task for iteration in range(1, iterations + 1) for task in assign_groups(shares, groups, iteration)
    )
    for task, share in enumerate(shares):
        assert abs(played[task] - share * groups * iterations) < 4, "a few groups, however long the run"


@given(shares, st.integers(1, 400))
def test_an_interleaved_sequence_keeps_the_shares_at_every_length(shares, length):
    sequence = list(islice(interleave(shares), length))
    for number in range(1, length + 1):
        counts = Counter(sequence[:number])
        assert all(abs(counts[task] - share * number) < 1 for task, share in enumerate(shares))
    assert sequence == list(islice(interleave(shares), length))


def test_equal_shares_alternate():
    assert list(islice(interleave([0.5, 0.5]), 6)) == [0, 1, 0, 1, 0, 1]
    assert list(islice(interleave([0.5, 0.25, 0.25]), 8)).count(0) == 4


def test_shares_that_divide_evenly_hold_in_every_iteration():
    for iteration in range(1, 200):
        assert Counter(assign_groups([0.5, 0.25, 0.25], 8, iteration)) == {0: 4, 1: 2, 2: 2}


def test_a_rare_environment_still_comes_up():
    played = [assign_groups([0.95, 0.05], 4, iteration).count(1) for iteration in range(1, 101)]
    assert set(played) == {0, 1}
    assert sum(played) == pytest.approx(20, abs=2)


def test_trajectories_have_the_index_and_budgets_of_their_environment(chat):
    mix = [{"name": "FrozenLake", "share": 0.25}, {"name": "Bandit", "share": 0.25}]
    config = mixed(mix=mix, settings={}, instruction=None)
    config = config.model_copy(update={"rollout": config.rollout.model_copy(update={"groups": 4, "group_size": 2})})
    planned = train_plans(config, get_shares(config), iteration=3)
    names = ["Sokoban", "Sokoban", "FrozenLake", "Bandit"]
    script = [[tiny.sampled(chat, tiny.answer("Left", "Left"))] * 5 for _ in range(8)]
    recorded = []
    found = player(config, chat, ScriptedSampler(script), recorded).play(
        RolloutRequest(planned, iteration=3, split="train", temperature=1.0)
    )
    started = [event for event in recorded if isinstance(event, GroupStarted)]
    assert [event.environment for event in started] == names
    for event, name in zip(started, names, strict=True):
        assert envs.spec(name).instruction in event.prompt
    assert [t.environment for t in found] == [0, 0, 0, 0, 1, 1, 2, 2]
    assert collate(found, 0).environment.tolist() == [0, 0, 0, 0, 1, 1, 2, 2]
    ends = {event.trajectory: event.turns for event in recorded if isinstance(event, TrajectoryFinished)}
    assert [ends[t.id] for t in found][:4] == [5] * 4
    assert [ends[t.id] for t in found][-2:] == [1, 1]


def test_success_is_reported_per_environment():
    def outcome(environment, success):
        return Trajectory(id="t", group=0, member=0, environment=environment, success=success)

    outcomes = [outcome(0, True), outcome(0, False), outcome(2, True)]
    values = success_by_environment(outcomes, get_shares(mixed()))
    assert values == {"success/Sokoban": 0.5, "success/Bandit": 1.0}
    assert get_spec("success/Bandit").title == "Bandit: success"
    assert get_spec("success/Bandit").unit == "share"
    assert get_spec("success/rate").title == "Success while training"


def test_a_run_in_two_environments_trains_and_evaluates_in_both(pocket_folder, tmp_path):
    config = tiny.config(
        pocket_folder,
        iterations=2,
        environment={"mix": [{"name": "Bandit", "share": 0.5}]},
        algorithm={"estimator": "gae", "reward_normalization": "environment_mean_std"},
    )
    run(config, tmp_path)
    trained = [event for event in events(tmp_path, GroupStarted) if event.split == "train"]
    assert Counter(event.environment for event in trained) == {"Sokoban": 2, "Bandit": 2}
    ids = [member for event in events(tmp_path, GroupStarted) for member in event.members]
    assert len(ids) == len(set(ids)), "no two trajectories of a run share a name"
    suites = [(event.suite, event.iteration) for event in events(tmp_path, Evaluation)]
    assert suites == [("Sokoban", 0), ("Bandit", 0), ("Sokoban", 2), ("Bandit", 2)]
    evaluated = {(e.suite, e.environment) for e in events(tmp_path, GroupStarted) if e.split == "eval"}
    assert evaluated == {("Sokoban", "Sokoban"), ("Bandit", "Bandit")}
    recorded = [event.values for event in events(tmp_path, Metrics) if "time/update" in event.values]
    assert all({"success/Sokoban", "success/Bandit"} <= values.keys() for values in recorded)
    for values in recorded:
        assert values["success/rate"] == pytest.approx((values["success/Sokoban"] + values["success/Bandit"]) / 2)


SPREADS = st.lists(st.lists(st.sampled_from([0.0, 0.1, 1.0, 10.9]), min_size=3, max_size=3), min_size=1, max_size=10)


@given(SPREADS, st.sampled_from(get_args(FilterMethod)), st.floats(0.05, 1), st.booleans(), st.data())
def test_the_filter_compares_groups_of_the_same_environment_only(rollout, method, keep, drop, data):
    keep = 1.0 if method in ("none", "soft") else keep
    numbers = data.draw(st.lists(st.integers(0, 2), min_size=len(rollout), max_size=len(rollout)))
    found = keep_within(rollout, numbers, method, keep, drop)
    assert any(found.kept) or FILTERS[method].may_be_empty
    for number in set(numbers):
        places = [g for g, environment in enumerate(numbers) if environment == number]
        alone = keep_groups([rollout[g] for g in places], method, keep, drop)
        assert [found.weights[g] for g in places] == alone.weights
        if not drop or any(group.informative for group in alone.groups):
            assert [found.kept[g] for g in places] == alone.kept
    if drop and any(group.informative for group in found.groups):
        assert all(group.informative for group, stays in zip(found.groups, found.kept, strict=True) if stays)
    assert found.kept_share == sum(found.kept) / len(rollout)
    assert keep_within(rollout, [0] * len(rollout), method, keep, drop) == keep_groups(rollout, method, keep, drop)


def test_small_rewards_of_one_environment_survive_large_ones_of_another():
    sokoban, bandit = [[0.0, 10.9], [0.0, 9.0]], [[0.0, 0.2], [0.0, 1.0]]
    found = keep_within([*sokoban, *bandit], [0, 0, 1, 1], "std", 0.5, True)
    assert found.kept == [True, False, False, True]
    assert keep_groups([*sokoban, *bandit], "std", 0.5, True).kept == [True, True, False, False]


def test_a_title_of_many_environments_stays_short():
    mix = [{"name": name, "share": 0.1} for name in ("FrozenLake", "Bandit", "BanditRev", "Countdown")]
    assert (
        RunConfig.model_validate({"environment": {"mix": mix}}).title().startswith("Sokoban + FrozenLake + 3 more · ")
    )
