"""Runs over HTTP: list, launch, describe, control, clone, delete."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import yaml
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from tests.trainer.config.test_mix import MIX
from tests.webapp.api.api_clients import Callers, problem, program
from tests.webapp.conftest import People
from trainer.config.run import RunConfig
from webapp.api.idempotency import do_expire_keys
from webapp.api.models import IdempotencyKey
from webapp.runs.models import Run
from webapp.teams.actions import do_create_team, do_set_role
from webapp.teams.models import Membership

PRESET = "sokoban-starpo_s-pocket"


def state(run: Run, state: str) -> None:
    Run.objects.filter(pk=run.pk).update(state=state)


def many(people: People, count: int, **values: Any) -> list[Run]:
    config = RunConfig().model_dump(mode="json")
    return [
        Run.objects.create(
            team=people.team,
            author=people.owner,
            title=f"Run {number}",
            config=config,
            environment="Sokoban",
            iterations=4,
            **values,
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("priority", ["low", "normal", "high", None])
def test_runs_are_launched_and_cloned_with_the_requested_priority(
    priority: str | None, callers: Callers, people: People
) -> None:
    requested = {"priority": priority} if priority else {}
    launched = callers.owner.post("/api/runs", {"preset": PRESET} | requested).json()
    cloned = callers.owner.post(f"/api/runs/{launched['slug']}/clone", requested).json()
    group = callers.owner.post("/api/groups", {"preset": PRESET, "seeds": 2} | requested)
    assert group.status_code == 201, group.content
    runs = Run.objects.filter(team=people.team)
    assert launched["priority"] == cloned["priority"] == (priority or "normal")
    assert {run.get_priority_display().lower() for run in runs} == {priority or "normal"}
    assert len(runs) == 4


def test_a_preset_with_overrides_is_launched_and_queued(callers: Callers, people: People) -> None:
    answer = callers.owner.post(
        "/api/runs", {"preset": PRESET, "overrides": {"iterations": 20, "rollout.group_size": 4}}
    )
    assert answer.status_code == 201, answer.content
    payload = answer.json()
    run = Run.objects.get(slug=payload["slug"])
    assert (run.state, run.team, run.author, run.preset, run.iterations) == (
        "queued",
        people.team,
        people.owner,
        PRESET,
        20,
    )
    assert payload["config"]["rollout"]["group_size"] == run.config["rollout"]["group_size"] == 4
    assert payload["url"] == f"http://testserver/runs/{run.slug}/"


def test_a_partial_configuration_is_launched_with_defaults(callers: Callers) -> None:
    answer = callers.owner.post("/api/runs", {"config": {"iterations": 3, "name": "Mine", "tags": ["a"]}})
    run = Run.objects.get(slug=answer.json()["slug"])
    assert (run.title, run.tags, run.config) == (
        "Mine",
        ["a"],
        RunConfig(iterations=3, name="Mine", tags=["a"]).model_dump(mode="json"),
    )


def test_a_mixture_of_environments_is_launched_and_cloned(callers: Callers) -> None:
    bodies: list[dict[str, Any]] = [
        {"preset": PRESET, "overrides": {"environment.mix": MIX}},
        {"config": {"environment": {"mix": MIX}}},
    ]
    for body in bodies:
        launched = callers.owner.post("/api/runs", body).json()
        assert launched["config"]["environment"]["mix"] == MIX
    smaller = {"overrides": {"environment.mix": [MIX[1] | {"share": 0.5}]}}
    cloned = callers.owner.post(f"/api/runs/{launched['slug']}/clone", smaller).json()
    assert cloned["config"]["environment"]["mix"] == [MIX[1] | {"share": 0.5}]


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({}, "config", "either a configuration or the name of a preset"),
        ({"preset": PRESET, "config": {}}, "config", "not both"),
        ({"preset": "nosuch"}, "preset", PRESET),
        ({"preset": PRESET, "overrides": {"rollout.nosuch": 1}}, "rollout.nosuch", "no setting of this name"),
        ({"preset": PRESET, "overrides": {"nosuch.deep.name": 1}}, "nosuch.deep.name", "no setting of this name"),
        ({"preset": PRESET, "overrides": {"iterations": "many"}}, "iterations", "whole number, not 'many'"),
        ({"config": {"rollout": {"groups": 0}}}, "config.rollout.groups", "must be greater than 0"),
        ({"config": {"environment": {"name": "Chess"}}}, "config.environment.name", "unknown environment 'Chess'"),
        ({"config": {"algorithm": {"lam": 1}}}, "config.algorithm.lam", "no setting of this name"),
        (
            {"preset": PRESET, "overrides": {"environment.mix": [{"name": "Bandit", "share": 2}]}},
            "environment.mix.0.share",
            "must be less than 1",
        ),
        (
            {"config": {"environment": {"mix": [{"name": "Chess", "share": 0.5}]}}},
            "config.environment.mix.0.name",
            "unknown environment 'Chess'",
        ),
        ({"preset": PRESET, "wish": 1}, "wish", "no setting of this name"),
        ({"preset": PRESET, "team": "nosuch"}, "team", "there is no team nosuch"),
    ],
)
def test_launch_errors_are_reported_by_field(callers: Callers, body: dict[str, Any], field: str, words: str) -> None:
    answer = callers.owner.post("/api/runs", body)
    assert answer.status_code == 422, answer.content
    assert words in problem(answer)["fields"][field]
    assert not Run.objects.exists()


def test_the_same_key_launches_once_and_refuses_another_body(callers: Callers) -> None:
    body = {"preset": PRESET, "overrides": {"seed": 3}}
    first = callers.owner.post("/api/runs", body, Idempotency_Key="night-1")
    again = callers.owner.post("/api/runs", body, Idempotency_Key="night-1")
    other = callers.owner.post("/api/runs", {"preset": PRESET}, Idempotency_Key="night-1")
    assert (first.status_code, again.status_code, other.status_code) == (201, 200, 409)
    assert first.json()["slug"] == again.json()["slug"]
    assert "Use a new key" in problem(other)["message"]
    assert Run.objects.count() == 1


def test_a_key_is_per_user_and_reusable_after_a_failure(callers: Callers) -> None:
    assert callers.owner.post("/api/runs", {"preset": "nosuch"}, Idempotency_Key="k").status_code == 422
    assert callers.owner.post("/api/runs", {"preset": PRESET}, Idempotency_Key="k").status_code == 201
    assert callers.outsider.post("/api/runs", {"preset": PRESET}, Idempotency_Key="k").status_code == 201


def test_keys_expire_after_a_day(callers: Callers) -> None:
    callers.owner.post("/api/runs", {"preset": PRESET}, Idempotency_Key="k")
    now = timezone.now()
    assert (do_expire_keys(now + timedelta(hours=23)), do_expire_keys(now + timedelta(hours=25))) == (
        0,
        1,
    )
    assert not IdempotencyKey.objects.exists()


def test_cursor_pages_of_the_list_have_no_gap_or_duplicate(callers: Callers, people: People) -> None:
    runs = many(people, 7)
    same = timezone.now()
    Run.objects.filter(pk__in=[run.pk for run in runs[2:5]]).update(created_at=same)  # equal times are ordered, too
    found: list[str] = []
    cursor = ""
    while True:
        page = callers.owner.get(f"/api/runs?limit=2{'&cursor=' + cursor if cursor else ''}").json()
        found += [item["slug"] for item in page["items"]]
        cursor = page["next_cursor"]
        if not cursor:
            break
    expected = Run.objects.order_by("-created_at", "-slug").values_list("slug", flat=True)
    assert found == list(expected)


def test_an_invalid_cursor_is_refused(callers: Callers) -> None:
    answer = callers.owner.get("/api/runs?cursor=WzFd")
    assert (answer.status_code, list(problem(answer)["fields"])) == (422, ["cursor"])


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("state=failed", ["Run 1"]),
        ("environment=Bandit", ["Run 2"]),
        ("tag=night", ["Run 0"]),
        ("author=ada", ["Run 2", "Run 1", "Run 0"]),
        ("author=grace", []),
        ("text=run+1", ["Run 1"]),
        ("text=night", ["Run 0"]),
    ],
)
def test_the_list_is_filtered(callers: Callers, people: People, query: str, found: list[str]) -> None:
    first, second, third = many(people, 3)
    Run.objects.filter(pk=first.pk).update(tags=["night"])
    state(second, "failed")
    Run.objects.filter(pk=third.pk).update(environment="Bandit")
    assert [item["title"] for item in callers.owner.get(f"/api/runs?{query}").json()["items"]] == found


def test_the_query_count_of_the_list_is_constant(
    callers: Callers, people: People, django_assert_max_num_queries: Any
) -> None:
    many(people, 20)
    with django_assert_max_num_queries(4):  # the token, when it was used, the runs, the reader's teams
        assert len(callers.owner.get("/api/runs").json()["items"]) == 20


def test_a_token_sees_its_team_and_a_session_all_teams_of_the_user(people: People, run: Run) -> None:
    second = do_create_team("Second", people.owner)
    assert program(second, people.owner).get(f"/api/runs/{run.slug}").status_code == 404
    assert program(second, people.owner).get("/api/runs").json()["items"] == []
    browser = Client()
    browser.force_login(people.owner)
    assert [item["slug"] for item in browser.get("/api/runs").json()["items"]] == [run.slug]
    launched = browser.post("/api/runs", {"preset": PRESET}, content_type="application/json")
    assert launched.status_code == 422, "it does not say for which of the two teams"
    assert second.slug in problem(launched)["message"]


def test_a_private_run_is_listed_for_its_author_only(people: People, run: Run) -> None:
    member = people.viewer
    do_set_role(people.team, member, Membership.Role.MEMBER)
    Run.objects.filter(pk=run.pk).update(visibility="private")
    assert program(people.team, member).get(f"/api/runs/{run.slug}").status_code == 404
    assert program(people.team, member).get("/api/runs").json()["items"] == []
    assert program(people.team, people.owner).get(f"/api/runs/{run.slug}").status_code == 200


def test_title_tags_and_visibility_are_changed_independently(callers: Callers, run: Run) -> None:
    answer = callers.owner.call("PATCH", f"/api/runs/{run.slug}", {"title": " New ", "tags": ["a", "b"]})
    assert (answer.status_code, answer.json()["title"], answer.json()["visibility"]) == (200, "New", "team")
    callers.owner.call("PATCH", f"/api/runs/{run.slug}", {"visibility": "link"})
    run.refresh_from_db()
    assert (run.title, run.tags, run.visibility) == ("New", ["a", "b"], "link")
    blank = callers.owner.call("PATCH", f"/api/runs/{run.slug}", {"title": "  "})
    assert (blank.status_code, list(problem(blank)["fields"])) == (422, ["title"])


def test_an_edit_that_is_refused_archives_nothing(callers: Callers, run: Run, settings: Settings) -> None:
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED)
    settings.ECHOSCOPE_MAX_TAGS_PER_RUN = 1
    answer = callers.owner.call("PATCH", f"/api/runs/{run.slug}", {"archived": True, "tags": ["a", "b"]})
    assert answer.status_code >= 400
    run.refresh_from_db()
    assert run.archived_at is None


def test_notes_are_written_and_ended_runs_archived(callers: Callers, run: Run) -> None:
    path = f"/api/runs/{run.slug}"
    assert callers.owner.call("PATCH", path, {"notes": "Try **more** turns"}).json()["notes"] == "Try **more** turns"
    early = callers.owner.call("PATCH", path, {"archived": True})
    assert (early.status_code, "Stop it first" in problem(early)["message"]) == (409, True)
    state(run, "finished")
    assert callers.owner.call("PATCH", path, {"archived": True}).json()["archived_at"] is not None
    assert callers.owner.get("/api/runs?archived=false").json()["items"] == []
    assert [item["slug"] for item in callers.owner.get("/api/runs?archived=true").json()["items"]] == [run.slug]
    assert callers.owner.call("PATCH", path, {"archived": False}).json()["archived_at"] is None


def test_a_cancellation_is_undone(callers: Callers, run: Run) -> None:
    path = f"/api/runs/{run.slug}/control"
    assert callers.owner.post(path, {"action": "cancel"}).json()["state"] == "cancelled"
    assert callers.owner.post(path, {"action": "undo-cancel"}).json()["state"] == "queued"
    assert callers.owner.post(path, {"action": "undo-cancel"}).status_code == 409


def test_only_author_and_admins_hide_a_run_from_the_team_or_delete_it(people: People, run: Run) -> None:
    do_set_role(people.team, people.viewer, Membership.Role.MEMBER)
    state(run, "finished")
    member = program(people.team, people.viewer)
    hidden = member.call("PATCH", f"/api/runs/{run.slug}", {"visibility": "private"})
    deleted = member.call("DELETE", f"/api/runs/{run.slug}?confirm={run.slug}")
    assert (hidden.status_code, deleted.status_code) == (403, 403)
    assert "Only the author of this run and the admins" in problem(deleted)["message"]
    assert member.call("PATCH", f"/api/runs/{run.slug}", {"title": "Ours"}).status_code == 200


def test_a_run_is_paused_and_resumed_and_impossible_requests_explained(callers: Callers, run: Run) -> None:
    path = f"/api/runs/{run.slug}/control"
    assert callers.owner.post(path, {"action": "pause"}).json()["state"] == "paused"
    refused = callers.owner.post(path, {"action": "pause"})
    assert (refused.status_code, problem(refused)["code"]) == (409, "refused")
    assert "cannot pause now" in problem(refused)["message"]
    assert callers.owner.post(path, {"action": "resume"}).json()["state"] == "queued"
    assert callers.owner.post(path, {"action": "explode"}).status_code == 422


def test_settings_are_changed_while_a_run_trains_and_impossible_changes_explained(callers: Callers, run: Run) -> None:
    path = f"/api/runs/{run.slug}/changes"
    sent = {"changes": {"optimizer.policy_lr": 5e-5, "evaluation.every": 5}, "why": "the curve is shaky"}
    answer = callers.owner.post(path, sent)
    assert (answer.status_code, answer.json()["iteration"]) == (202, None)
    assert answer.json()["changes"] == {"optimizer.policy_lr": "5e-05", "evaluation.every": "5"}
    (listed,) = callers.viewer.get(path).json()["items"]
    assert (listed["by"], listed["why"], listed["refused"]) == ("ada", "the curve is shaky", "")
    assert callers.viewer.post(path, sent).status_code == 403
    unknown = callers.owner.post(path, {"changes": {"rollout.groups": 9}})
    assert (unknown.status_code, list(problem(unknown)["fields"])) == (422, ["rollout.groups"])
    assert callers.owner.post(path, {"changes": {"optimizer.policy_lr": "fast"}}).status_code == 422
    state(run, "finished")
    assert (callers.owner.post(path, sent).status_code, run.setting_changes.count()) == (409, 1)


def test_a_run_is_rewound_to_a_kept_checkpoint(callers: Callers, run: Run) -> None:
    path = f"/api/runs/{run.slug}/changes"
    Run.objects.filter(pk=run.pk).update(iteration=20)
    run.checkpoints.create(iteration=10, path="checkpoints/000010", bytes=1, time=timezone.now())
    lost = callers.owner.post(path, {"rewind_to": 7})
    assert (lost.status_code, problem(lost)["fields"]) == (
        422,
        {"rewind_to": "No checkpoint of iteration 7 is kept (kept: 10)."},
    )
    assert callers.owner.post(path, {"why": "nothing asked for"}).status_code == 422
    assert callers.viewer.post(path, {"rewind_to": 10}).status_code == 403
    answer = callers.owner.post(
        path, {"rewind_to": 10, "changes": {"optimizer.policy_lr": 5e-5}, "why": "it collapsed"}
    )
    assert (answer.status_code, answer.json()["rewind_to"], answer.json()["rewind_from"]) == (202, 10, None)
    (listed,) = callers.viewer.get(path).json()["items"]
    assert (listed["rewind_to"], listed["changes"]) == (10, {"optimizer.policy_lr": "5e-05"})
    assert callers.owner.post(path, {"rewind_to": 10}).status_code == 422, "one waits"
    state(run, "finished")
    ended = callers.owner.post(path, {"rewind_to": 10})
    assert (ended.status_code, f"run:{run.slug}@" in problem(ended)["message"]) == (409, True)


def test_a_clone_differs_only_in_the_overrides(callers: Callers, run: Run) -> None:
    answer = callers.owner.post(f"/api/runs/{run.slug}/clone", {"overrides": {"seed": 9}}, Idempotency_Key="c")
    clone = Run.objects.get(slug=answer.json()["slug"])
    assert (answer.status_code, clone.state) == (201, "queued")
    assert clone.config == run.config | {"seed": 9}
    again = callers.owner.post(f"/api/runs/{run.slug}/clone", {"overrides": {"seed": 9}}, Idempotency_Key="c")
    assert (again.status_code, again.json()["slug"]) == (200, clone.slug)


def test_the_configuration_is_read_as_yaml(callers: Callers, run: Run) -> None:
    answer = callers.owner.get(f"/api/runs/{run.slug}/config.yaml")
    assert answer["Content-Type"] == "application/yaml; charset=utf-8"
    assert yaml.safe_load(answer.content) == run.config


def test_deleting_requires_an_ended_run_and_its_name(
    callers: Callers, run: Run, django_capture_on_commit_callbacks: Any
) -> None:
    run.folder.mkdir(parents=True)
    path = f"/api/runs/{run.slug}"
    assert callers.owner.call("DELETE", path).status_code == 422
    assert callers.owner.call("DELETE", f"{path}?confirm=other").status_code == 422
    early = callers.owner.call("DELETE", f"{path}?confirm={run.slug}")
    assert (early.status_code, "Cancel it first" in problem(early)["message"]) == (409, True)
    state(run, "cancelled")
    with django_capture_on_commit_callbacks(execute=True):
        assert callers.owner.call("DELETE", f"{path}?confirm={run.slug}").status_code == 204
    assert not Run.objects.exists()
    assert not run.folder.exists()
