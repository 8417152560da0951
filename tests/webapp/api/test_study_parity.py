"""Runs of a study are launched as those of the launch form and the API: alike, with the same refusals and notes."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest

from tests.webapp.api.api_clients import Callers, problem
from tests.webapp.api.test_launch_parity import form_of, launched
from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, who
from tests.webapp.pages.models.test_model_views import here
from tests.webapp.studies.played import runs_of
from trainer.config.files import load_preset
from webapp.runs.access import NOT_YOURS_TO_HURRY
from webapp.runs.launch.creation import SchedulingOptions
from webapp.runs.launch.texts import data_to_text
from webapp.runs.models import Run, StoredModel, Worker
from webapp.studies.actions import do_create_study
from webapp.studies.models import Study
from webapp.studies.progress import do_advance
from webapp.studies.study_plan import planned
from webapp.studies.study_spec import read_spec
from webapp.teams.models import Membership

__all__ = ["here", "who"]

PRESET, MODEL = "bandit-starpo_s-pocket", "smollm2-135m"
NAMED = {"title", "group"}
"""What a study names after itself and its arms."""


def form_of_study(setting: str, *values: Any, **more: str) -> dict[str, str]:
    texts = ", ".join(data_to_text(value) for value in values)
    return {"kind": "grid", "preset": PRESET, "seeds": "1", "setting_1": setting, "values_1": texts} | more


def of_the_api(setting: str, *values: Any, **more: Any) -> dict[str, Any]:
    axes = [{"setting": setting, "values": list(values)}]
    return {"kind": "grid", "preset": PRESET, "seeds": 1, "axes": axes} | more


def comparable(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    shown = [{name: value for name, value in row.items() if name not in NAMED} for row in rows]
    return [row | {"config": row["config"] | {"name": ""}} for row in shown]


@pytest.mark.parametrize(
    ("setting", "value", "scheduling"),
    [
        ("iterations", 3, {}),
        ("rollout.group_size", 4, {"priority": "low"}),
        ("algorithm.kl_coef", 0.001, {"queue": "cpu"}),
        ("policy.device", "cpu", {}),
        ("lora.rank", 8, {"priority": "high"}),
    ],
    ids=json.dumps,
)
def test_a_grid_of_one_arm_launches_what_the_launch_form_and_the_api_do(
    setting: str, value: Any, scheduling: dict[str, str], who: Visitors, callers: Callers
) -> None:
    run = {"preset": PRESET, "overrides": {setting: value}} | scheduling
    assert callers.owner.post("/api/runs", run).status_code == 201
    alone = comparable(launched())
    assert who.owner.post("/runs/new", form_of(who, run)).status_code == 302
    assert comparable(launched()) == alone
    assert who.owner.post("/studies/new", form_of_study(setting, value, **scheduling)).status_code == 302
    assert comparable(launched()) == alone
    assert callers.owner.post("/api/studies", of_the_api(setting, value, **scheduling)).status_code == 201
    assert comparable(launched()) == alone


@pytest.mark.parametrize(
    ("setting", "value"), [("policy.model", "/etc/passwd"), ("cluster.rollout_actors", 2), ("policy.model", "../x")]
)
def test_what_a_run_may_not_name_no_arm_of_a_study_may(
    setting: str, value: Any, who: Visitors, callers: Callers
) -> None:
    run = callers.owner.post("/api/runs", {"preset": PRESET, "overrides": {setting: value}})
    reason = problem(run)["fields"][setting]
    first = {"policy.model": "pocket", "cluster.rollout_actors": 0}[setting]
    study = callers.owner.post("/api/studies", of_the_api(setting, first, value))
    assert (study.status_code, problem(study)["fields"]) == (422, {"config": f"{setting}: {reason}"})
    form = who.owner.post("/studies/new", form_of_study(setting, first, value))
    assert form.status_code == 422
    assert reason in html.unescape(form.content.decode())
    assert not Study.objects.exists()
    assert not Run.objects.exists()


def test_the_form_shows_notes_estimate_and_place_in_the_queue_like_the_launch_form(here: Worker, who: Visitors) -> None:
    fields = form_of(who, {"preset": PRESET, "overrides": {"evaluation.prompts": 0, "rollout.temperature": 0.5}})
    shared = "evaluation.prompts=0"
    run = who.owner.post("/runs/new/check", fields).content.decode()
    study = who.owner.post("/studies/new/check", form_of_study("rollout.temperature", 0.5, shared=shared))
    assert facts_of(study.content.decode()) == facts_of(run)
    notes = " ".join(facts_of(run))
    for words in ("There is no evaluation", "temperature 0.5", "Sampled tokens", "Memory", "1 worker"):
        assert words in notes


def facts_of(page: str) -> list[str]:
    """Texts of notes, estimates and queue."""
    panels = re.findall(r"<h2>(?:Notes|Estimate|Queue).*?</section>", page, re.DOTALL)
    assert len(panels) == 3
    return [" ".join(html.unescape(re.sub(r"<[^>]+>", " ", panel)).split()) for panel in panels]


def test_notes_of_every_arm_are_shown_once(here: Worker, who: Visitors) -> None:
    form = form_of_study("rollout.temperature", 1.0, 0.5, 0.25, seeds="3", shared="evaluation.prompts=0")
    text = who.owner.post("/studies/new/check", form).content.decode()
    assert text.count("There is no evaluation") == 1
    assert "temperature 0.5" in text
    assert "temperature 0.25" in text
    assert "Estimate for each of 9 runs" in text


def test_models_of_all_arms_are_downloaded(here: Worker, who: Visitors) -> None:
    assert who.owner.post("/studies/new", form_of_study("policy.model", "pocket", MODEL)).status_code == 302
    assert [(one.name, one.state) for one in StoredModel.objects.all()] == [(MODEL, StoredModel.State.QUEUED)]


def test_nothing_is_launched_if_a_model_cannot_be_downloaded(here: Worker, who: Visitors, callers: Callers) -> None:
    Worker.objects.update(usage={"disk_free": 1000, "disk_total": 10**12})
    refused = who.owner.post("/studies/new", form_of_study("policy.model", "pocket", MODEL))
    assert refused.status_code == 409
    assert "Nothing was launched." in refused.content.decode()
    assert callers.owner.post("/api/studies", of_the_api("policy.model", "pocket", MODEL)).status_code == 409
    assert not Study.objects.exists()
    assert not Run.objects.exists()


def test_a_search_stops_hurrying_when_its_author_is_no_admin_any_more(people: People) -> None:
    space = [{"setting": "optimizer.policy_lr", "low": 1e-5, "high": 1e-2, "log": True}]
    common = load_preset(PRESET).model_dump(mode="json")
    spec = read_spec({"kind": "random", "config": common, "space": space, "trials": 3})
    study = do_create_study(
        people.team, people.owner, spec, planned(spec), scheduling=SchedulingOptions("", None, Run.Priority.HIGH)
    )
    Membership.objects.filter(team=people.team, user=people.owner).update(role=Membership.Role.MEMBER)
    do_advance()
    study.refresh_from_db()
    assert runs_of(study) == []
    assert study.problem == f"No further trials at the moment: {NOT_YOURS_TO_HURRY}"


def test_members_may_not_hurry_a_study(people: People, who: Visitors, callers: Callers) -> None:
    Membership.objects.filter(team=people.team, user=people.owner).update(role=Membership.Role.MEMBER)
    assert who.owner.post("/studies/new", form_of_study("iterations", 3, priority="high")).status_code == 403
    assert callers.owner.post("/api/studies", of_the_api("iterations", 3, priority="high")).status_code == 403
    assert not Study.objects.exists()
