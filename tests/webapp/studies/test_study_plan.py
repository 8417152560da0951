"""Plans of studies: arms and runs, and refusals that say what to change."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from pytest_django import Settings

from trainer.config.files import load_preset
from webapp.studies.study_plan import StudyRefused, number_type, planned
from webapp.studies.study_spec import CatalogueSpec, GridSpec, SearchSpec, read_spec

CONFIG = load_preset("bandit-starpo_s-pocket").model_dump(mode="json")


def grid(*axes: tuple[str, list[Any]], **more: Any) -> GridSpec:
    spec = read_spec(
        {"kind": "grid", "config": CONFIG, "axes": [{"setting": name, "values": list(own)} for name, own in axes]}
        | more
    )
    assert isinstance(spec, GridSpec)
    return spec


def search(**range_: Any) -> SearchSpec:
    spec = read_spec({"kind": "random", "config": CONFIG, "space": [range_]})
    assert isinstance(spec, SearchSpec)
    return spec


def test_a_study_of_the_catalogue_has_the_cells_of_the_trainers_grid() -> None:
    plan = planned(CatalogueSpec(study="figure-9", scale="pocket", seeds=2))
    assert [arm.name for arm in plan.arms] == ["starpo", "starpo_s"]
    assert [(cell.environment, cell.arm, cell.seed) for cell in plan.cells[:3]] == [
        ("bandit", 0, 0),
        ("bandit", 1, 0),
        ("sokoban", 0, 0),
    ]
    assert plan.runs == len(plan.cells) == 12
    assert plan.title == "Figure 9: StarPO against StarPO-S (pocket)"


def test_a_study_of_the_catalogue_has_its_own_seeds_by_default() -> None:
    assert CatalogueSpec(study="echo-trap").seeds == 10
    assert CatalogueSpec(study="figure-7").seeds == 10
    assert CatalogueSpec(study="figure-7", scale="paper").seeds == 6
    assert CatalogueSpec(study="echo-trap", seeds=2).seeds == 2
    assert read_spec({"kind": "catalogue", "study": "echo-trap", "scale": "smoke"}).seeds == 1
    assert CatalogueSpec(study="none").seeds == 3, "refused when it is planned"


def test_changes_to_all_runs_of_a_catalogue_study() -> None:
    plan = planned(CatalogueSpec(study="figure-5", scale="smoke", seeds=1, overrides={"iterations": 3}))
    assert {cell.config.iterations for cell in plan.cells} == {3}


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"seed": 3}, "choose the number of seeds instead"),
        ({"name": "mine"}, "may not vary name"),
        ({"environment.name": "Bandit"}, "the study names its environments"),
        ({"algorithm.estimator": "grpo", "algorithm.normalize_by_std": True}, "make arms 1 and 2 the same"),
    ],
)
def test_changes_to_all_runs_keep_seeds_environments_and_arms_apart(overrides: dict[str, Any], words: str) -> None:
    with pytest.raises(StudyRefused, match=words) as refusal:
        planned(CatalogueSpec(study="figure-5", scale="smoke", seeds=2, overrides=overrides))
    assert refusal.value.field == "overrides"


@pytest.mark.parametrize("kind", ["grid", "search"])
def test_seeds_end_before_the_largest_one(kind: str) -> None:
    axis, space = ("iterations", [5]), {"setting": "optimizer.policy_lr", "low": 1e-5, "high": 1e-2}
    last = 2**32 - 3
    for seed in (last, last + 1):
        spec = grid(axis, seeds=3) if kind == "grid" else search(**space).model_copy(update={"seeds": 3})
        spec = spec.model_copy(update={"config": CONFIG | {"seed": seed}})
        if seed == last:
            assert [cell.config.seed for cell in planned(spec).cells][-1:] in ([], [2**32 - 1])
        else:
            with pytest.raises(StudyRefused, match=f"too large for 3 seeds: use at most {last}"):
                planned(spec)


def test_a_grid_is_each_combination_with_each_seed() -> None:
    plan = planned(grid(("algorithm.kl_coef", [0, 0.01]), ("rollout.group_size", [4, 8]), seeds=2))
    assert [arm.changes for arm in plan.arms] == [
        {"algorithm.kl_coef": 0, "rollout.group_size": 4},
        {"algorithm.kl_coef": 0, "rollout.group_size": 8},
        {"algorithm.kl_coef": 0.01, "rollout.group_size": 4},
        {"algorithm.kl_coef": 0.01, "rollout.group_size": 8},
    ]
    assert [cell.config.seed for cell in plan.cells] == [CONFIG["seed"]] * 4 + [CONFIG["seed"] + 1] * 4
    assert plan.cells[3].config.rollout.group_size == 8
    assert plan.cells[3].config.algorithm.kl_coef == 0.01
    assert len({cell.config.title() for cell in plan.cells}) == 8, "each run has a title of its own"
    assert plan.arms[0].title == "KL penalty 0 · Group size 4"


def test_settings_of_the_environment_can_be_varied() -> None:
    config = load_preset("sokoban-starpo_s-pocket").model_dump(mode="json")
    spec = GridSpec.model_validate(
        {"config": config, "axes": [{"setting": "environment.settings.boxes", "values": [1, 2]}], "seeds": 1}
    )
    assert [cell.config.environment.settings["boxes"] for cell in planned(spec).cells] == [1, 2]


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ([("algorithm.no_such", [1])], "algorithm.no_such"),
        ([("rollout.group_size", [-1, 4])], "does not fit: rollout.group_size = -1"),
        ([("seed", [1, 2])], "choose the number of seeds instead"),
        ([("name", ["a", "b"])], "may not vary name"),
        ([("iterations", list(range(1, 51))), ("rollout.group_size", list(range(2, 22)))], "1,000 combinations"),
    ],
)
def test_impossible_grids_are_refused_with_the_reason(axes: list[tuple[str, list[Any]]], words: str) -> None:
    with pytest.raises(StudyRefused, match=words) as refusal:
        planned(grid(*axes))
    assert refusal.value.field == "axes"


def test_values_and_settings_must_differ() -> None:
    with pytest.raises(ValidationError, match="must differ"):
        grid(("iterations", [5, 5]))
    with pytest.raises(ValidationError, match="iterations is named twice"):
        grid(("iterations", [5]), ("iterations", [6]))


def test_numbers_that_cannot_be_stored_are_refused() -> None:
    with pytest.raises(StudyRefused, match="cannot be stored"):
        planned(grid(("algorithm.kl_coef", [0, float("inf")])))


def test_a_metric_without_a_direction_is_refused() -> None:
    with pytest.raises(StudyRefused, match="not a metric"):
        planned(grid(("iterations", [5]), metric="no/such"))


def test_a_study_has_at_most_so_many_runs(settings: Settings) -> None:
    settings.ECHOSCOPE_MAX_RUNS_PER_STUDY = 5
    with pytest.raises(StudyRefused, match="6 runs, and a study may have at most 5"):
        planned(grid(("iterations", [5, 6]), seeds=3))


def test_a_search_checks_both_ends_of_its_ranges() -> None:
    assert planned(search(setting="optimizer.policy_lr", low=1e-5, high=1e-2, log=True)).runs == 20
    assert planned(search(setting="rollout.group_size", low=4, high=16)).arms == []
    with pytest.raises(StudyRefused, match="does not fit"):
        planned(search(setting="rollout.group_size", low=-4, high=16))
    with pytest.raises(StudyRefused, match="it is no number"):
        planned(search(setting="rollout.think", low=0, high=1))
    with pytest.raises(StudyRefused, match="compare these in a grid"):
        planned(search(setting="policy.model", values=["pocket", "run:abc@3"]))


def test_number_types_of_settings_of_runs_and_environments() -> None:
    assert number_type("rollout.group_size", "Sokoban") is int
    assert number_type("optimizer.policy_lr", "Sokoban") is float
    assert number_type("environment.settings.boxes", "Sokoban") is int
    assert number_type("rollout.think", "Sokoban") is None
    assert number_type("environment.settings.boxes", "Bandit") is None


@pytest.mark.parametrize(
    ("range_", "words"),
    [
        ({"low": 2, "high": 1}, "below"),
        ({"low": 0, "high": 1, "log": True}, "above 0"),
        ({"low": 1}, "either"),
        ({"low": 1, "high": 2, "values": [1]}, "either"),
        ({}, "either"),
    ],
)
def test_a_range_has_two_ends_or_values(range_: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        search(setting="iterations", **range_)
