"""Recipe of the shipped policy, as far as it can be checked without the minutes of a full build."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trainer.config.imitation import Course
from trainer.config.run import WarmupConfig
from trainer.imitation import warmup
from trainer.imitation.courses import COURSES
from trainer.imitation.recipe import Recipe
from trainer.paths import POCKET_CHECKPOINT, shipped_folder
from trainer.policy import pocket


def test_the_shipped_policy_uses_the_default_settings() -> None:
    record = json.loads((POCKET_CHECKPOINT / warmup.RECORD).read_text())
    assert record["settings"] == COURSES["general"].recipe.facts()
    assert record["digest"] == warmup.digest(WarmupConfig())
    assert record["command"] == "python -m trainer build-pocket"


def test_the_recipe_reproduces_the_shipped_tokenizer() -> None:
    """Independent of installed packages: a new environment must not change the pocket policy's input."""
    made = pocket.build_tokenizer(list(warmup.corpus(COURSES["general"], COURSES["general"].recipe.seed)))
    shipped = json.loads((POCKET_CHECKPOINT / "tokenizer.json").read_text())
    assert made.get_vocab() == {
        **shipped["model"]["vocab"],
        **{token["content"]: token["id"] for token in shipped["added_tokens"]},
    }


@pytest.mark.parametrize("course", COURSES)
def test_a_policy_of_another_recipe_has_another_digest(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, recipe = WarmupConfig(course=course), COURSES[course].recipe
    shipped = warmup.digest(settings)
    for changes in ({"noise": 0.123}, {"copying_steps": 1}, {"seed": 7}):
        monkeypatch.setitem(COURSES, course, replace(COURSES[course], recipe=replace(recipe, **changes)))
        assert warmup.digest(settings) != shipped
        assert warmup.shipped(settings) is None


SHIPPED: list[Course] = ["general", "frozen_lake", "bandit", "countdown", "webshop", "calculator"]


@pytest.mark.parametrize("course", SHIPPED)
def test_the_shipped_policies_are_those_of_the_courses(course: Course) -> None:
    folder = warmup.shipped(WarmupConfig(course=course))
    assert folder is not None, f"build it: python -m trainer build-pocket --set course={course}"


def test_all_shipped_weights_together_are_small() -> None:
    folders = [shipped_folder(course) for course in SHIPPED]
    assert sum((folder / "model.safetensors").stat().st_size for folder in folders) < 16_000_000


def test_every_course_has_a_digest_of_its_own() -> None:
    assert len({warmup.digest(WarmupConfig(course=course)) for course in COURSES}) == len(COURSES)
    assert warmup.digest(WarmupConfig()) == "2abbc80aad23d6bb", "other settings need a new pocket policy"


def test_processes_that_need_the_same_policy_build_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = WarmupConfig(course="bandit", think=False)
    short = Recipe(steps=0, single_state_steps=1, batch=1)
    monkeypatch.setitem(COURSES, "bandit", replace(COURSES["bandit"], recipe=short))
    built, write = [], warmup.write

    def counted(*args: Any) -> None:
        built.append(args)
        write(*args)

    monkeypatch.setattr(warmup, "write", counted)
    with ThreadPoolExecutor() as pool:
        folders = list(pool.map(lambda _: warmup.find_or_build(settings, tmp_path, lambda done, total: None), range(3)))
    assert len(built) == 1
    assert len(set(folders)) == 1
    assert json.loads((folders[0] / warmup.RECORD).read_text())["digest"] == warmup.digest(settings)
