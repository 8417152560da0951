"""The client against a real site: every method, errors as exceptions, retries of repeatable requests."""

from __future__ import annotations

import inspect
import json
import tarfile
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pytest_django.live_server_helper import LiveServer

import echoscope
from echoscope.client import Client
from echoscope.errors import (
    Conflict,
    Forbidden,
    Invalid,
    InvalidAddress,
    NotAuthenticated,
    NotFound,
    ServerError,
    Unreachable,
)
from echoscope.journal import JournalUploads
from echoscope.questions import Questions
from echoscope.studies import Studies
from echoscope.teamwork import AlertRules, TrajectoryAnnotations
from tests.webapp.conftest import People
from tests.webapp.page_requests import play
from trainer.journal.protocol import CHECKPOINT_STATE, checkpoint_path
from webapp.api.root import api
from webapp.runs.models import Run
from webapp.services.addresses import free_port
from webapp.teams.actions import do_change_team, do_create_token
from webapp.trajectories.models import TokenArrays, TokenComputation, Trajectory

PRESET = "bandit-starpo_s-pocket"


def test_a_run_is_launched_listed_updated_controlled_cloned_and_deleted(client: Client) -> None:
    run = client.launch(preset=PRESET, overrides={"iterations": 2, "tags": ["t"]})
    assert (run.state, run.iterations, run.config["iterations"]) == ("queued", 2, 2)
    assert [found.slug for found in client.runs(tag="t")] == [run.slug]
    assert client.update(run.slug, title="Mine", visibility="private").title == "Mine"
    assert client.control(run.slug, "pause").state == "paused"
    assert [shown.state for shown in client.watch(run.slug)] == ["paused"]
    clone = client.clone(run.slug, {"seed": 5}, group="Seeds")
    assert clone.config == run.config | {"seed": 5}
    assert [found.slug for found in client.runs(group="Seeds")] == [clone.slug]
    client.control(run.slug, "cancel")
    client.update(run.slug, archived=True)
    assert [found.slug for found in client.runs(archived=True)] == [run.slug]
    assert [found.slug for found in client.runs(archived=False)] == [clone.slug]
    client.delete(run.slug)
    with pytest.raises(NotFound, match=run.slug):
        client.run(run.slug)


def test_the_same_idempotency_key_launches_once(client: Client) -> None:
    first = client.launch(preset=PRESET, key="night")
    assert client.launch(preset=PRESET, key="night").slug == first.slug
    assert client.launch(preset=PRESET).slug != first.slug
    with pytest.raises(Conflict, match="new key"):
        client.launch(preset=PRESET, overrides={"seed": 1}, key="night")


def test_lists_are_read_page_by_page_to_the_end(client: Client, run_on_site: Run, people_on_site: People) -> None:
    for number in range(120):
        Run.objects.create(
            team=people_on_site.team, title=f"Run {number}", config=run_on_site.config, environment="Sokoban"
        )
    found = [run.title for run in client.runs()]
    assert found == [f"Run {number}" for number in reversed(range(120))] + ["Trial"]


def test_results_of_a_run_are_typed(client: Client, run_on_site: Run, tmp_path: Path) -> None:
    slug = play(run_on_site, 2).slug
    assert "iterations: 4" in client.config_yaml(slug)
    names = [metric.name for metric in client.metrics(slug)]
    assert "reward/mean" in names
    curves = client.points(slug, ["reward/mean", "success/rate"])
    assert [point.last_iteration for point in curves["reward/mean"]] == [1, 2]
    assert [point.last for point in client.history(slug, "reward/mean")] == [
        point.last for point in curves["reward/mean"]
    ]
    assert client.evaluations(slug)[0].suite == "Sokoban"
    assert (client.alarms(slug), client.checkpoints(slug), client.log(slug)) == ([], [], "")
    found = list(client.trajectories(slug, iteration=2, sort="-reward"))
    assert [item.iteration for item in found] == [2] * 4
    detail = client.trajectory(found[0].slug)
    assert (detail.trajectory, len(detail.turns)) == (found[0], found[0].turns)
    exported = client.export_trajectory(found[0].slug, "json", tmp_path / "trajectory.json")
    assert echoscope.player(detail).page == echoscope.player(str(exported)).page, "in a notebook"


def test_a_run_is_edited_and_its_model_downloaded(client: Client, run_on_site: Run, tmp_path: Path) -> None:
    slug = run_on_site.slug
    assert client.update(slug, notes="See **iteration 2**").notes == "See **iteration 2**"
    assert client.control(slug, "cancel").state == "cancelled"
    assert client.control(slug, "undo-cancel").state == "queued"
    with pytest.raises(NotFound, match="neither on this machine nor in storage"):
        client.download_model(slug, 2, tmp_path / "model.tar")
    assert list(tmp_path.iterdir()) == []
    checkpoint = run_on_site.folder / checkpoint_path(2)
    checkpoint.mkdir(parents=True)
    (checkpoint / CHECKPOINT_STATE).write_text("{}")
    (checkpoint / "model.safetensors").write_bytes(b"weights")
    archive = client.download_model(slug, 2, tmp_path / "model.tar")
    with tarfile.open(archive) as tar:
        names = [name.rpartition("/")[2] for name in tar.getnames()]
    assert names == ["model.safetensors", "README.md", "training_config.yaml"]


def test_a_trajectory_is_shared_and_the_link_revoked(client: Client, run_on_site: Run) -> None:
    play(run_on_site, 1)
    found = Trajectory.objects.filter(run=run_on_site)[0]
    ends = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    link = client.share(found.slug, turn=0, expires_at=ends)
    assert (link.turn, link.expires_at, client.shares(found.slug)) == (0, ends, [link])
    assert f"/embed/{link.token}" in echoscope.player(link)._repr_html_()
    assert client.revoke(link.token).revoked_at is not None


def test_tokens_are_read_and_missing_ones_requested(client: Client, run_on_site: Run) -> None:
    play(run_on_site, 1)
    found = Trajectory.objects.filter(run=run_on_site, group__kept=True)[0]
    tokens = client.tokens(found.slug)
    assert (tokens.state, len(tokens.ids)) == ("recorded", sum(segment.tokens for segment in tokens.segments))
    TokenArrays.objects.all().delete()
    assert client.compute_tokens(found.slug).state == "queued"
    assert (client.tokens(found.slug).state, client.tokens(found.slug).ids) == ("queued", [])
    Trajectory.objects.update(superseded=True)
    TokenComputation.objects.all().delete()
    with pytest.raises(Conflict, match="a later attempt of the run replaced this one"):
        client.compute_tokens(found.slug)


def test_environments_presets_and_workers_are_listed(client: Client, people_on_site: People) -> None:
    assert (client.me().username, client.me().teams[0].role) == ("ada", "admin")
    assert "Sokoban" in [environment.name for environment in client.environments()]
    assert client.environment("Bandit").settings_schema["type"] == "object"
    assert client.environment("Gymnasium", id="Taxi-v4").spec["title"] != client.environment("Gymnasium").spec["title"]
    with pytest.raises(NotFound, match="Taxi-v4"):
        client.environment("Gymnasium", id="Taxi-v44")
    assert PRESET in [preset.name for preset in client.presets()]
    assert client.preset(PRESET).config["environment"]["name"] == "Bandit"
    assert client.workers() == []


def test_the_audit_log_is_fetched_page_by_page(client: Client, people_on_site: People) -> None:
    team = people_on_site.team
    for number in range(101):
        do_change_team(team, f"Name {number}", None)
    entries = list(client.audit(team.slug, action="team-changed"))
    assert [entry.subject for entry in entries] == [f"Name {number}" for number in reversed(range(101))]


def test_the_client_has_a_method_for_every_operation() -> None:
    """Each path and method of the API occurs in the client's source."""
    classes = (Client, JournalUploads, Studies, TrajectoryAnnotations, AlertRules, Questions)
    source = "".join(map(inspect.getsource, classes))
    document = json.loads(json.dumps(api.get_openapi_schema(path_prefix="/api/")))
    for path in document["paths"]:
        fixed = [part for part in path.removeprefix("/api/").split("/") if part and "{" not in part]
        assert all(part in source for part in fixed), path


def test_errors_are_exceptions_with_advice(
    client: Client, live_server: LiveServer, people_on_site: People, run_on_site: Run
) -> None:
    with pytest.raises(Invalid) as invalid:
        client.launch(preset=PRESET, overrides={"iterations": "many"})
    assert invalid.value.fields == {"iterations": "must be a whole number, not 'many'"}
    with pytest.raises(Conflict, match="cannot resume now"):
        client.control(run_on_site.slug, "resume")
    with pytest.raises(NotAuthenticated, match="Create a new one"):
        Client(live_server.url, "es_wrong").me()
    _, reading = do_create_token(people_on_site.team, people_on_site.viewer, "reads", ["read", "write"])
    with pytest.raises(Forbidden, match="not change them"):
        Client(live_server.url, reading).control(run_on_site.slug, "pause")


class Flaky(BaseHTTPRequestHandler):
    """A site that is unavailable for a while: responds with `answers` in order and records the requests."""

    answers: ClassVar[list[tuple[int, dict[str, str], bytes]]] = []
    requests: ClassVar[list[tuple[str, str]]] = []

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.requests.append((self.command, self.headers.get("Idempotency-Key", "")))
        status, headers, body = self.answers.pop(0)
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer

    def log_message(self, format: str, *args: Any) -> None:
        pass


ME = json.dumps({"username": "ada", "scopes": ["read"], "teams": [], "later": "unknown to this client"}).encode()


@pytest.fixture
def flaky() -> Any:
    Flaky.answers, Flaky.requests = [], []
    server = HTTPServer(("127.0.0.1", 0), Flaky)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_reads_are_retried_with_backoff_and_after_retry_after(flaky: str) -> None:
    Flaky.answers += [(503, {}, b""), (429, {"Retry-After": "7"}, b""), (502, {}, b""), (200, {}, ME)]
    waits: list[float] = []
    me = Client(flaky, "es_x", sleep=waits.append).me()
    assert (me.username, len(waits), waits[1]) == ("ada", 3, 7.0)
    assert 0.25 <= waits[0] <= 0.5
    assert 1.0 <= waits[2] <= 2.0


def test_retries_are_limited(flaky: str) -> None:
    Flaky.answers += [(503, {}, b"")] * 9
    with pytest.raises(ServerError, match="responded with status 503"):
        Client(flaky, "es_x", sleep=lambda seconds: None).me()
    assert len(Flaky.requests) == 5


def test_launching_is_retried_with_the_same_key_and_controlling_is_not(flaky: str) -> None:
    Flaky.answers += [(503, {}, b""), (503, {}, b""), (404, {}, b'{"error": {"code": "x", "message": "y"}}')]
    site = Client(flaky, "es_x", sleep=lambda seconds: None)
    with pytest.raises(NotFound):
        site.launch(preset="x")
    assert len({key for _, key in Flaky.requests}) == 1 < len(Flaky.requests)
    Flaky.answers, Flaky.requests = [(503, {}, b"")] * 2, []
    with pytest.raises(ServerError):
        site.control("x", "pause")
    assert len(Flaky.requests) == 1
    Flaky.answers, Flaky.requests = [(429, {"Retry-After": "1"}, b""), (503, {}, b"")], []
    with pytest.raises(ServerError):
        site.control("x", "pause")
    assert len(Flaky.requests) == 2, "what was refused unread is sent again"


def test_an_address_without_a_site_is_reported(flaky: str) -> None:
    with pytest.raises(Unreachable, match="is unreachable"):
        Client(f"http://127.0.0.1:{free_port()}", "es_x", sleep=lambda seconds: None).me()
    Flaky.answers.append((404, {}, b"<html>not found</html>"))
    with pytest.raises(Unreachable, match="is no Echoscope site"):
        Client(flaky, "es_x").me()


@pytest.mark.parametrize("address", ["localhost:8000", "echoscope.example", "ftp://echoscope.example", "http://", ""])
def test_an_address_without_http_is_refused_before_any_request(address: str) -> None:
    with pytest.raises(InvalidAddress, match="must begin with http:// or https://"):
        Client(address, "es_x")


def test_an_address_with_an_invalid_port_is_refused() -> None:
    with pytest.raises(InvalidAddress, match="Invalid port: 'eight'"):
        Client("http://localhost:eight", "es_x")


def test_a_site_without_https_is_named_as_such(live_server: LiveServer) -> None:
    address = live_server.url.replace("http://", "https://")
    with (
        Client(address, "es_x", sleep=lambda seconds: None) as client,
        pytest.raises(Unreachable, match="does not answer as a site with HTTPS: try http:// instead"),
    ):
        client.me()
