"""Who is asking, environments, presets, workers; how callers are known; what nothing is."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.utils import timezone

import envs
from tests.webapp.api.api_clients import Callers, Program, problem, program
from tests.webapp.conftest import People
from tests.webapp.fragments import contains
from trainer.config.files import preset_names
from webapp.runs.models import Run, Worker
from webapp.teams.actions import do_revoke_token
from webapp.teams.models import ApiToken


def test_a_program_learns_who_it_is(callers: Callers, people: People) -> None:
    team = {"slug": people.team.slug, "name": "Agents"}
    assert callers.reader.get("/api/me").json() == {
        "username": "ada",
        "scopes": ["read"],
        "teams": [team | {"role": "admin"}],
    }
    assert callers.viewer.get("/api/me").json()["teams"] == [team | {"role": "viewer"}]


def test_every_environment_tells_its_rules_and_settings(callers: Callers) -> None:
    listed = callers.owner.get("/api/environments").json()
    assert [told["name"] for told in listed] == envs.names()
    told = callers.owner.get("/api/environments/Sokoban").json()
    assert told["spec"]["actions"] == ["Up", "Down", "Left", "Right"]
    assert "properties" in told["settings_schema"]
    assert callers.owner.get("/api/environments/Chess").status_code == 404


def test_every_preset_is_a_whole_configuration(callers: Callers) -> None:
    listed = callers.owner.get("/api/presets").json()
    assert [told["name"] for told in listed] == preset_names()
    told = callers.owner.get("/api/presets/sokoban-pocket").json()
    assert (told["name"], told["config"]["environment"]["name"]) == ("sokoban-starpo_s-pocket", "Sokoban")
    assert callers.owner.get("/api/presets/nosuch").status_code == 404


def test_workers_tell_only_the_runs_that_the_caller_may_see(callers: Callers, run: Run) -> None:
    now = timezone.now()
    worker = Worker.objects.create(name="w1", device="CPU", queues=["training"], started_at=now, last_seen_at=now)
    Run.objects.filter(pk=run.pk).update(state="running", worker=worker)
    (ours,) = callers.viewer.get("/api/workers").json()
    assert (ours["name"], ours["alive"], ours["runs"]) == ("w1", True, [run.slug])
    assert callers.outsider.get("/api/workers").json()[0]["runs"] == []


def test_who_is_not_known_is_told_how_to_become_known(callers: Callers, people: People) -> None:
    nobody = callers.nobody.get("/api/runs")
    assert (nobody.status_code, nobody["WWW-Authenticate"]) == (401, 'Bearer realm="Echoscope"')
    assert "Authorization: Bearer" in problem(nobody)["message"]
    revoked = program(people.team, people.owner)
    do_revoke_token(ApiToken.objects.latest("pk"))
    for stranger in (revoked, Program("es_nonsense"), Program("ключ"), Program("x" * 5000)):
        assert stranger.get("/api/runs").status_code == 401


def test_a_token_that_is_wrong_is_not_made_good_by_a_cookie(people: People) -> None:
    browser = Client(headers={"Authorization": "Bearer es_wrong"})
    browser.force_login(people.owner)
    assert browser.get("/api/runs").status_code == 401


def test_a_token_does_what_its_scopes_say(callers: Callers, people: People, run: Run) -> None:
    refused = callers.reader.post(f"/api/runs/{run.slug}/control", {"action": "pause"})
    assert (refused.status_code, problem(refused)["code"]) == (403, "scope")
    writer = program(people.team, people.owner, "write")
    assert writer.get(f"/api/runs/{run.slug}").status_code == 403
    assert writer.post(f"/api/runs/{run.slug}/control", {"action": "pause"}).status_code == 200


def test_a_browser_needs_its_csrf_token_to_change_something(people: People, run: Run) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(people.owner)
    path = f"/api/runs/{run.slug}/control"
    refused = browser.post(path, {"action": "pause"}, content_type="application/json")
    assert (refused.status_code, problem(refused)["code"]) == (403, "csrf")
    browser.get("/runs/new")
    key = browser.cookies["csrftoken"].value
    with_it = browser.post(path, {"action": "pause"}, content_type="application/json", headers={"X-CSRFToken": key})
    assert with_it.status_code == 200


@pytest.mark.parametrize("path", ["/api/nosuch", "/api/", "/api/runs/a/b/c/d", "/api/runs/a%2Fb"])
def test_where_there_is_nothing_programs_read_json(callers: Callers, path: str) -> None:
    for method in ("GET", "POST"):
        answer = callers.owner.call(method, path)
        assert (answer.status_code, problem(answer)["code"]) == (404, "not_found")


def test_a_method_that_does_not_exist_is_told_in_json_with_those_that_do(callers: Callers) -> None:
    answer = callers.owner.call("PUT", "/api/runs")
    assert (answer.status_code, problem(answer)["code"]) == (405, "method_not_allowed")
    assert set(answer["Allow"].split(", ")) == {"GET", "POST"}


@pytest.mark.parametrize("body", [b"{", b"\xff", b'{"action": NaN}', b"[" * 100_000])
def test_a_body_that_is_not_json_is_told(callers: Callers, run: Run, body: bytes) -> None:
    answer = callers.owner.call("POST", f"/api/runs/{run.slug}/control", body, Content_Type="application/json")
    assert (answer.status_code, problem(answer)["code"]) == (400, "unreadable")


def test_a_body_that_is_too_large_is_told(callers: Callers, run: Run) -> None:
    body = b'{"action": "' + b"x" * 3_000_000 + b'"}'
    answer = callers.owner.call("POST", f"/api/runs/{run.slug}/control", body, Content_Type="application/json")
    assert (answer.status_code, problem(answer)["code"]) == (413, "too_large")


def test_the_reference_shows_every_operation_without_an_account_or_anything_from_elsewhere() -> None:
    page = Client().get("/api/docs")
    document = Client().get("/api/openapi.json").json()
    text = page.content.decode()
    for path, operations in document["paths"].items():
        assert contains(text, f"<code>{path}</code>")
        for told in operations.values():
            assert f'id="{told["operationId"]}"' in text
    assert not re.findall(r"""(?:src|srcset|href|action|url)\s*[=(]\s*["']?(?!http://testserver)\w*:?//""", text)
    assert not contains(text, "<style")
    assert " style=" not in text
