"""Groups of runs: algorithms × seeds, launched from the form and through the API, all or none."""

from __future__ import annotations

import html

import pytest
from pytest_django import Settings

from tests.webapp.api.api_clients import Callers, callers
from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, who
from tests.webapp.pages.runs.test_launch_views import fields_of
from trainer.config.files import load_preset, with_overrides
from webapp.runs.launch.creation import free_name
from webapp.runs.launch.experiment import ExperimentRefused, default_name, plan
from webapp.runs.models import Run

__all__ = ["callers", "who"]

PRESET = "sokoban-starpo_s-pocket"
BOTH = ["starpo", "starpo_s"]


def test_another_arm_takes_the_settings_in_which_its_preset_differs() -> None:
    config = with_overrides(load_preset(PRESET), ["iterations=5", "algorithm.clip_high=0.3", "seed=7"])
    runs = plan(config, PRESET, BOTH, 2)
    assert [(run.preset, run.config.seed) for run in runs] == [
        ("sokoban-starpo-pocket", 7),
        (PRESET, 7),
        ("sokoban-starpo-pocket", 8),
        (PRESET, 8),
    ]
    plain, own = runs[0].config, runs[1].config
    assert own == config
    assert (plain.algorithm.group_filter, plain.algorithm.clip_high, plain.algorithm.kl_coef) == ("none", 0.2, 0.001)
    assert (plain.iterations, plain.optimizer) == (5, config.optimizer)


def test_runs_with_a_name_get_different_titles() -> None:
    config = with_overrides(load_preset(PRESET), ["name=Trial"])
    assert [run.config.title() for run in plan(config, PRESET, BOTH, 2)][:2] == [
        "Trial · StarPO, seed 0",
        "Trial · StarPO-S, seed 0",
    ]
    assert plan(config, PRESET, ["starpo_s"], 1)[0].config == config
    assert default_name(config, BOTH, 3) == "Trial · StarPO and StarPO-S × 3 seeds"


@pytest.mark.parametrize(
    ("changes", "arms", "seeds", "field"),
    [
        ([], ["ppo"], 1, "arms"),
        ([], BOTH, 6, "seeds"),
        (["kind=sft"], BOTH, 1, "arms"),
        (["environment.name=Bandit"], BOTH, 1, "arms"),
        ([f"seed={2**32 - 1}"], [], 2, "seeds"),
        (
            [
                "algorithm.group_filter=none",
                "algorithm.group_filter_keep=1",
                "algorithm.clip_high=0.2",
                "algorithm.kl_coef=0.001",
                "algorithm.drop_zero_std=false",
            ],
            BOTH,
            1,
            "arms",
        ),
    ],
)
def test_an_impossible_experiment_is_refused(changes: list[str], arms: list[str], seeds: int, field: str) -> None:
    with pytest.raises(ExperimentRefused) as refusal:
        plan(with_overrides(load_preset(PRESET), changes), PRESET, arms, seeds)
    assert refusal.value.field == field


def test_the_form_launches_both_arms_with_three_seeds_as_one_group(who: Visitors, people: People) -> None:
    fields = fields_of(who.owner.get(f"/runs/new?preset={PRESET}").content.decode())
    experiment = fields | {"arms": BOTH, "seeds": "3", "iterations": "4"}
    checked = html.unescape(who.owner.post("/runs/new/check", experiment).content.decode())
    assert 'data-launch-word="Launch 6 runs"' in checked
    assert "Sokoban · StarPO and StarPO-S × 3 seeds: 6 runs" in checked
    exported = html.unescape(who.owner.post("/runs/new/exports", experiment).content.decode())
    assert "/api/groups" in exported
    assert '"seeds": 3' in exported
    answer = who.owner.post("/runs/new", experiment)
    runs = list(Run.objects.order_by("pk"))
    (group,) = {run.group for run in runs}
    assert group == "Sokoban · StarPO and StarPO-S × 3 seeds"
    assert sorted((run.preset, run.config["seed"]) for run in runs) == [
        (preset, seed) for preset in ("sokoban-starpo-pocket", PRESET) for seed in range(3)
    ]
    assert {run.iterations for run in runs} == {4}
    listed = html.unescape(who.owner.get(answer["Location"]).content.decode())
    assert listed.count("data-run-row") == 2, "a row for the seeds of each arm"
    assert f"/compare?runs={','.join(run.slug for run in runs)}" in listed
    assert who.owner.get("/?group=Another").content.decode().count("data-run-row") == 0
    who.owner.post("/runs/new", experiment)  # sent again after a lost answer
    assert Run.objects.count() == 6
    who.owner.post("/runs/new", experiment | {"launch_key": "another"})
    assert set(Run.objects.values_list("group", flat=True)) == {group, f"{group} #2"}
    assert free_name(people.team, "Unused") == "Unused"
    long = "A name as long as a group may have one: " + "x" * 40
    for expected in (long, f"{long[:75]} #2", f"{long[:75]} #3"):
        assert free_name(people.team, long) == expected
        Run.objects.filter(pk=Run.objects.exclude(group__startswith="A name").order_by("pk")[0].pk).update(
            group=expected
        )


def test_a_group_is_launched_whole_or_not_at_all(who: Visitors, callers: Callers, settings: Settings) -> None:
    settings.ECHOSCOPE_MAX_QUEUED_RUNS_PER_TEAM = 4
    fields = fields_of(who.owner.get(f"/runs/new?preset={PRESET}").content.decode())
    page = who.owner.post("/runs/new", fields | {"arms": BOTH, "seeds": "3"})
    assert page.status_code == 409
    assert "This launch needs 6 places in the queue, and this team has 4 of its 4 left" in page.content.decode()
    answer = callers.owner.post("/api/groups", {"preset": PRESET, "arms": BOTH, "seeds": 3})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "quota")
    assert not Run.objects.exists()


def test_wrong_options_of_a_group_are_named(who: Visitors) -> None:
    fields = fields_of(who.owner.get(f"/runs/new?preset={PRESET}").content.decode())
    page = who.owner.post("/runs/new", fields | {"seeds": "9", "group": "x" * 81})
    text = html.unescape(page.content.decode())
    assert page.status_code == 422
    assert "Seeds must be a whole number from 1 to 5" in text
    assert "Group name must have at most 80 characters" in text
    assert not Run.objects.exists()


def test_the_api_launches_a_group_once(callers: Callers) -> None:
    body = {"preset": PRESET, "arms": BOTH, "seeds": 2, "overrides": {"iterations": 3}, "group": "Ours"}
    first = callers.owner.post("/api/groups", body, **{"Idempotency-Key": "once"})
    again = callers.owner.post("/api/groups", body, **{"Idempotency-Key": "once"})
    assert (first.status_code, again.status_code) == (201, 200), first.content
    assert first.json()["group"] == "Ours"
    slugs = [run["slug"] for run in first.json()["runs"]]
    assert slugs == [run["slug"] for run in again.json()["runs"]]
    assert len(slugs) == Run.objects.count() == 4
    assert first.json()["compare_url"].endswith(f"/compare?runs={','.join(slugs)}")
    listed = callers.owner.get("/api/runs?group=Ours").json()["items"]
    assert {run["slug"] for run in listed} == set(slugs)
    assert callers.owner.get("/api/runs?group=Theirs").json()["items"] == []
    moved = callers.owner.call("PATCH", f"/api/runs/{slugs[0]}", {"group": ""})
    assert moved.json()["group"] == ""
    wrong = callers.owner.post("/api/groups", {"preset": PRESET, "arms": ["ppo"]})
    assert (wrong.status_code, list(wrong.json()["error"]["fields"])) == (422, ["arms"])
    assert callers.viewer.post("/api/groups", body).status_code == 403
