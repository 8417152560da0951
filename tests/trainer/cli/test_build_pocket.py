"""`build-pocket`: which policies are built, where they go, and the record beside them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from trainer.cli import build_pocket
from trainer.config.run import PolicyConfig, WarmupConfig
from trainer.evaluation import suite_runner
from trainer.imitation import warmup
from trainer.imitation.courses import COURSES
from trainer.imitation.recipe import Recipe
from trainer.paths import shipped_folder
from trainer.policy.load import load


def test_all_courses_are_planned_each_with_a_folder_of_its_own(tmp_path: Path) -> None:
    shipped = build_pocket.plan(WarmupConfig(), None, every=True)
    assert [settings.course for settings, _ in shipped] == list(COURSES)
    assert [folder for _, folder in shipped] == [shipped_folder(course) for course in COURSES]
    elsewhere = build_pocket.plan(WarmupConfig(think=False), tmp_path, every=True)
    assert not any(settings.think for settings, _ in elsewhere)
    assert [folder for _, folder in elsewhere] == [tmp_path / course for course in COURSES]
    bandit = WarmupConfig(course="bandit")
    assert build_pocket.plan(bandit, None, every=False) == [(bandit, shipped_folder("bandit"))]
    assert build_pocket.plan(bandit, tmp_path, every=False) == [(bandit, tmp_path)]


def test_a_built_policy_loads_and_its_record_has_the_command_and_the_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    settings, short = WarmupConfig(course="bandit"), Recipe(copying_steps=1, single_state_steps=1, steps=0, batch=2)
    monkeypatch.setitem(COURSES, "bandit", replace(COURSES["bandit"], recipe=short))
    plans = suite_runner.group_plans
    monkeypatch.setattr(suite_runner, "group_plans", lambda *arguments: plans(*arguments)[:16])
    build_pocket.build(settings, tmp_path / "bandit", lines.append)
    policy = load(tmp_path / "bandit", PolicyConfig())
    record = json.loads((tmp_path / "bandit" / warmup.RECORD).read_text())
    assert record["command"] == "python -m trainer build-pocket --set course=bandit"
    assert 0 <= record["success_on_256_fixed_prompts_at_temperature_0.5"]["Bandit"] < 0.5, "two steps teach little"
    assert f"{policy.parameters:,} parameters" in lines[-1]
