"""Identity, environments, presets and workers; authentication; JSON errors."""

from __future__ import annotations

import json
import re

import pytest
from django.test import Client
from django.utils import timezone

import envs
from tests.webapp.api.api_clients import Callers, Program, problem, program
from tests.webapp.conftest import People
from tests.webapp.fragments import contains
from trainer.config.files import preset_names
from webapp.api.root import api
from webapp.runs.models import Run, Worker
from webapp.teams.actions import do_revoke_token
from webapp.teams.models import ApiToken


def test_a_client_can_read_its_identity(callers: Callers, people: People) -> None:
    team = {"slug": people.team.slug, "name": "Agents"}
    assert callers.reader.get("/api/me").json() == {
        "username": "ada",
        "scopes": ["read"],
        "teams": [team | {"role": "admin"}],
    }
    assert callers.viewer.get("/api/me").json()["teams"] == [team | {"role": "viewer"}]


def test_every_environment_lists_its_rules_and_settings(callers: Callers) -> None:
    listed = callers.owner.get("/api/environments").json()
    assert [payload["name"] for payload in listed] == envs.names()
    payload = callers.owner.get("/api/environments/Sokoban").json()
    assert payload["spec"]["actions"] == ["Up", "Down", "Left", "Right"]
    assert "properties" in payload["settings_schema"]
    assert callers.owner.get("/api/environments/Chess").status_code == 404


def test_an_adapter_lists_its_variants_and_describes_each(callers: Callers) -> None:
    payload = callers.owner.get("/api/environments/Gymnasium").json()
    assert payload["title"] == "Gymnasium"
    assert payload["variants"] == envs.variants("Gymnasium")
    variant = callers.owner.get("/api/environments/Gymnasium?id=Blackjack-v1").json()
    assert variant["spec"] == envs.spec("Gymnasium", {"id": "Blackjack-v1"}).model_dump(mode="json")
    unknown = callers.owner.get("/api/environments/Gymnasium?id=Blackjack-v9")
    assert unknown.status_code == 404
    assert "did you mean Blackjack-v1" in problem(unknown)["message"]
    assert callers.owner.get("/api/environments/Sokoban?id=x").status_code == 404


def test_every_preset_is_a_complete_configuration(callers: Callers) -> None:
    listed = callers.owner.get("/api/presets").json()
    assert [payload["name"] for payload in listed] == preset_names()
    payload = callers.owner.get("/api/presets/sokoban-pocket").json()
    assert (payload["name"], payload["config"]["environment"]["name"]) == ("sokoban-starpo_s-pocket", "Sokoban")
    assert callers.owner.get("/api/presets/nosuch").status_code == 404


def test_workers_list_only_runs_visible_to_the_caller(callers: Callers, run: Run) -> None:
    now = timezone.now()
    worker = Worker.objects.create(name="w1", device="CPU", queues=["training"], started_at=now, last_seen_at=now)
    Run.objects.filter(pk=run.pk).update(state="running", worker=worker)
    (ours,) = callers.viewer.get("/api/workers").json()
    assert (ours["name"], ours["alive"], ours["runs"]) == ("w1", True, [run.slug])
    assert callers.outsider.get("/api/workers").json()[0]["runs"] == []


def test_workers_show_the_cluster_that_they_stand_for(callers: Callers) -> None:
    now = timezone.now()
    node = {"id": "a", "name": "gpu-1", "cpus": 8.0, "cpus_free": 6.0, "gpus": 4.0, "gpus_free": 0.5}
    cluster = {"problem": "", "nodes": [node]}
    Worker.objects.create(name="ray@here", started_at=now, last_seen_at=now, cluster=cluster)
    Worker.objects.create(name="without@here", started_at=now, last_seen_at=now)
    assert [worker["cluster"] for worker in callers.viewer.get("/api/workers").json()] == [cluster, None]


def test_an_unauthenticated_request_explains_how_to_authenticate(callers: Callers, people: People) -> None:
    anonymous = callers.anonymous.get("/api/runs")
    assert (anonymous.status_code, anonymous["WWW-Authenticate"]) == (401, 'Bearer realm="Echoscope"')
    assert "Authorization: Bearer" in problem(anonymous)["message"]
    revoked = program(people.team, people.owner)
    do_revoke_token(ApiToken.objects.latest("pk"))
    for stranger in (revoked, Program("es_nonsense"), Program("ключ"), Program("x" * 5000)):
        assert stranger.get("/api/runs").status_code == 401


def test_a_wrong_token_is_not_replaced_by_a_session_cookie(people: People) -> None:
    browser = Client(headers={"Authorization": "Bearer es_wrong"})
    browser.force_login(people.owner)
    assert browser.get("/api/runs").status_code == 401


def test_a_token_is_limited_to_its_scopes(callers: Callers, people: People, run: Run) -> None:
    refused = callers.reader.post(f"/api/runs/{run.slug}/control", {"action": "pause"})
    assert (refused.status_code, problem(refused)["code"]) == (403, "scope")
    writer = program(people.team, people.owner, "write")
    assert writer.get(f"/api/runs/{run.slug}").status_code == 403
    assert writer.post(f"/api/runs/{run.slug}/control", {"action": "pause"}).status_code == 200


def test_a_session_needs_a_csrf_token_for_writes(people: People, run: Run) -> None:
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
def test_missing_resources_return_json(callers: Callers, path: str) -> None:
    for method in ("GET", "POST"):
        answer = callers.owner.call(method, path)
        assert (answer.status_code, problem(answer)["code"]) == (404, "not_found")


def test_an_unsupported_method_returns_json_with_the_allowed_ones(callers: Callers) -> None:
    answer = callers.owner.call("PUT", "/api/runs")
    assert (answer.status_code, problem(answer)["code"]) == (405, "method_not_allowed")
    assert set(answer["Allow"].split(", ")) == {"GET", "POST"}


@pytest.mark.parametrize("body", [b"{", b"\xff", b'{"action": NaN}', b"[" * 100_000])
def test_a_body_that_is_not_json_is_reported(callers: Callers, run: Run, body: bytes) -> None:
    answer = callers.owner.call("POST", f"/api/runs/{run.slug}/control", body, Content_Type="application/json")
    assert (answer.status_code, problem(answer)["code"]) == (400, "unreadable")


def test_a_body_that_is_too_large_is_reported(callers: Callers, run: Run) -> None:
    body = b'{"action": "' + b"x" * 3_000_000 + b'"}'
    answer = callers.owner.call("POST", f"/api/runs/{run.slug}/control", body, Content_Type="application/json")
    assert (answer.status_code, problem(answer)["code"]) == (413, "too_large")


def test_the_reference_is_public_complete_and_self_hosted() -> None:
    document = Client().get("/api/openapi.json").json()
    assert api.get_openapi_schema(path_prefix="/api/") is api.get_openapi_schema(path_prefix="/api/"), "built once"
    parts = {operation["tags"][0] for operations in document["paths"].values() for operation in operations.values()}
    pages = {part: Client().get(f"/api/docs?part={part}").content for part in sorted(parts)}
    assert all(len(page) < 200_000 for page in pages.values()), {part: len(page) for part, page in pages.items()}
    text = b"".join(pages.values()).decode()
    assert contains(Client().get("/api/docs?part=nothing").content.decode(), 'aria-current="page"'), "the first part"
    for name in re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)):
        assert f'id="shape-{name}"' in text
    for path, operations in document["paths"].items():
        assert contains(text, f"<code>{path}</code>")
        for operation in operations.values():
            assert f'id="{operation["operationId"]}"' in text
    assert not re.findall(r"""(?:src|srcset|href|action|url)\s*[=(]\s*["']?(?!http://testserver)\w*:?//""", text)
    assert not contains(text, "<style")
    assert " style=" not in text
