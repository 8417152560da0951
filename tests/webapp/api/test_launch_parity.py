"""The launch form and the API answer alike to the same request: the same runs, or a refusal of the same fields."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.webapp.api.api_clients import Callers
from tests.webapp.page_requests import Visitors, who
from tests.webapp.pages.runs.test_launch_views import fields_of, state_of
from trainer.config.dotted import leaves
from trainer.config.files import load_preset, with_values
from webapp.runs.launch.texts import data_to_text
from webapp.runs.models import Run

__all__ = ["who"]

SOKOBAN, BANDIT = "sokoban-starpo_s-pocket", "bandit-starpo_s-pocket"
BOTH = ["starpo", "starpo_s"]
LAUNCHED: list[dict[str, Any]] = [
    {},
    {"preset": BANDIT},
    {
        "preset": "sokoban-starpo-pocket",
        "overrides": {
            "iterations": 3,
            "name": "Mine",
            "tags": ["a", "b"],
            "rollout.temperature": 0.7,
            "rollout.context_turns": 2,
            "algorithm.group_filter": "none",
            "algorithm.kl_coef": 0.001,
            "lora.rank": 8,
            "policy.device": "cpu",
            "environment.instruction": "Push the box.\nQuickly.",
            "sft.warmup_steps": 4,
        },
    },
    {"overrides": {"iterations": 1, "seed": 7, "evaluation.prompts": 0}, "visibility": "private"},
    {"queue": "cpu", "visibility": "link"},
    {"queue": "lab-3", "priority": "low"},
    {"gpus": 0},
    {"gpus": 1, "priority": "high"},
    {"gpus": 2},
    {"queue": "cpu", "gpus": 2},
    {"group": "Tuning"},
    {"arms": BOTH, "seeds": 1},
    {"arms": BOTH, "seeds": 2, "group": "Pairs"},
    {"arms": ["starpo"], "seeds": 1, "group": "Alone"},
    {"seeds": 3},
    {"seeds": 2, "overrides": {"name": "Named"}},
    {"preset": BANDIT, "seeds": 2, "overrides": {"seed": 5}},
    {"arms": BOTH, "seeds": 2, "overrides": {"rollout.groups": 4}, "visibility": "link", "priority": "low"},
]
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"overrides": {"iterations": -1}}, "iterations"),
    ({"overrides": {"rollout.groups": 0}}, "rollout.groups"),
    ({"overrides": {"rollout.temperature": "hot"}}, "rollout.temperature"),
    ({"overrides": {"environment.name": "Chess"}}, "environment.name"),
    ({"overrides": {"optimizer.policy_lr": -1e-6}}, "optimizer.policy_lr"),
    ({"overrides": {"policy.model": "/etc/passwd"}}, "policy.model"),
    ({"overrides": {"policy.model": "../secrets"}}, "policy.model"),
    ({"overrides": {"cluster.rollout_actors": 2}}, "cluster.rollout_actors"),
    ({"overrides": {"evaluation.suites": ["nonsense"]}}, "evaluation.suites"),
    ({"arms": ["starpo", "sarsa"], "seeds": 1}, "arms"),
    ({"seeds": 2, "overrides": {"seed": 2**32 - 1}}, "seeds"),
]


def form_of(who: Visitors, wanted: dict[str, Any]) -> dict[str, Any]:
    """The fields that a browser would post for a request."""
    preset = wanted.get("preset", SOKOBAN)
    fields: dict[str, Any] = dict(fields_of(who.owner.get(f"/runs/new?preset={preset}").content.decode()))
    for name, value in wanted.get("overrides", {}).items():
        fields[name] = data_to_text(value, lines=isinstance(value, list) and name.endswith("mix"))
    fields["arms"] = wanted.get("arms") or [preset.split("-")[1]]
    return fields | {
        name: str(wanted[name])
        for name in ("seeds", "group", "queue", "gpus", "priority", "visibility")
        if name in wanted
    }


def asked_of_the_api(wanted: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    several = "arms" in wanted or "seeds" in wanted
    return "/api/groups" if several else "/api/runs", {"preset": SOKOBAN} | wanted


def launched() -> list[dict[str, Any]]:
    """What was launched, without what is different each time."""
    names = ("title", "config", "preset", "environment", "queue", "gpus", "priority", "visibility", "memory", "tags")
    rows = list(Run.objects.order_by("pk").values(*names, "group", "team_id", "author_id"))
    Run.objects.all().delete()
    return rows


@pytest.mark.parametrize("wanted", LAUNCHED, ids=json.dumps)
def test_the_form_and_the_api_launch_the_same_runs(wanted: dict[str, Any], who: Visitors, callers: Callers) -> None:
    response = who.owner.post("/runs/new", form_of(who, wanted))
    assert response.status_code == 302, response.content.decode()[:500]
    by_form = launched()
    address, body = asked_of_the_api(wanted)
    answer = callers.owner.post(address, body)
    assert answer.status_code == 201, answer.content
    by_api = launched()
    assert len(by_api) == len(by_form)
    for one, other in zip(by_api, by_form, strict=True):
        assert {name: (one[name], other[name]) for name in one if one[name] != other[name]} == {}
    preset, changes = wanted.get("preset", SOKOBAN), wanted.get("overrides", {})
    own = [run["config"] for run in by_form if run["preset"] == preset]
    assert own or wanted["arms"] == ["starpo"]
    several = {"name", "seed"} if len(by_form) > 1 else set()
    expected = _without(with_values(load_preset(preset), changes).model_dump(mode="json"), several)
    assert all(_without(config, several) == expected for config in own)


def _without(config: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in leaves(config) if name not in names}


@pytest.mark.parametrize(("wanted", "field"), REFUSED, ids=json.dumps)
def test_the_form_and_the_api_refuse_the_same_fields(
    wanted: dict[str, Any], field: str, who: Visitors, callers: Callers
) -> None:
    fields = form_of(who, wanted)
    response = who.owner.post("/runs/new", fields)
    assert response.status_code == 422
    state = state_of(who.owner.post("/runs/new/check", fields).content.decode())
    address, body = asked_of_the_api(wanted)
    answer = callers.owner.post(address, body)
    assert answer.status_code == 422, answer.content
    named = set(answer.json()["error"]["fields"])
    assert named == {field}
    assert set(state["errors"]) == {"f-" + field.replace(".", "-")}
    assert not Run.objects.exists()
