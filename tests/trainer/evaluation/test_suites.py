"""Suites: names, invalid names, and the suites of a run."""

import pytest
from pydantic import ValidationError

from trainer.config.evaluation import parse_suite
from trainer.config.run import RunConfig
from trainer.evaluation.suites import get_suites


def config(*names, **sections):
    return RunConfig.model_validate({"evaluation": {"suites": list(names)}, **sections})


def test_a_suite_is_an_environment_with_optional_settings():
    assert parse_suite("LargeSokoban") == ("LargeSokoban", {})
    assert parse_suite("FrozenLake:size=5:slippery=off") == ("FrozenLake", {"size": 5, "slippery": False})


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("Chess", "unknown environment 'Chess'"),
        ("FrozenLake:size", "as FrozenLake:setting=value, not 'size'"),
        ("FrozenLake:size=huge", "size: "),
        ("FrozenLake:colour=red", "colour: "),
        ("Sokoban:a/b=1", "no '/'"),
        ("Sokoban:" + "x" * 60, "at most 60 characters"),
    ],
)
def test_an_invalid_suite_is_reported_at_its_setting(text, complaint):
    with pytest.raises(ValueError, match=r"evaluation\.suites") as error:
        config(text)
    assert complaint in str(error.value)


def test_a_suite_is_neither_repeated_nor_the_runs_own():
    with pytest.raises(ValidationError, match="lists the same suite twice"):
        config("Bandit", "Bandit")
    with pytest.raises(ValidationError, match="names Sokoban, in which the run is evaluated anyway"):
        config("Sokoban")


def test_the_training_environment_comes_first_with_training_settings():
    run = config("Bandit", rollout={"max_turns": 9}, environment={"instruction": "Push."})
    own, bandit = get_suites(run)
    assert (own.name, own.number, own.config) == ("Sokoban", 0, run)
    assert (bandit.name, bandit.number) == ("Bandit", 1)


def test_other_environments_use_their_own_budgets_and_wording():
    run = config("Bandit", rollout={"max_turns": 9, "think": False}, environment={"instruction": "Push."})
    bandit = get_suites(run)[1].config
    assert (bandit.environment.name, bandit.environment.instruction) == ("Bandit", None)
    assert (bandit.rollout.max_turns, bandit.rollout.max_actions) == (1, 1)
    assert bandit.rollout.think is False
    assert bandit.evaluation == run.evaluation


def test_other_environments_of_a_mixed_run_are_evaluated_with_training_settings():
    mixed = {"mix": [{"name": "FrozenLake", "share": 0.5, "settings": {"size": 5}}]}
    run = config("Bandit", environment=mixed)
    sokoban, lake, bandit = get_suites(run)
    assert [suite.number for suite in (sokoban, lake, bandit)] == [0, 1, 2]
    assert lake.config.environment.settings == {"size": 5}
    assert not sokoban.config.environment.mix
    with pytest.raises(ValidationError, match="names FrozenLake"):
        config("FrozenLake", environment=mixed)
