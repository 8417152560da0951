"""Selection of class, GPUs and priority of a run, by permission."""

from __future__ import annotations

import html

import pytest
from django.test import Client

from tests.webapp.conftest import People
from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, who
from tests.webapp.pages.runs.test_launch_views import fields_of
from tests.webapp.pages.runs.test_worker_views import worker
from webapp.runs.models import Run
from webapp.teams.actions import do_create_user, do_set_role
from webapp.teams.models import Membership
from webapp.worker.supervisor import serve

__all__ = ["who"]

pytestmark = pytest.mark.django_db

MEMBER_MAY = [("low", 0), ("normal", 1)]


@pytest.fixture
def member(people: People) -> Client:
    user = do_create_user("linus", "a long secret")
    do_set_role(people.team, user, Membership.Role.MEMBER)
    client = Client()
    client.force_login(user)
    return client


def test_high_priority_is_for_admins(run: Run, who: Visitors, member: Client) -> None:
    address = f"/runs/{run.slug}/priority"
    assert member.post(address, {"priority": "high"}).status_code == 403
    assert who.viewer.post(address, {"priority": "low"}).status_code == 403
    for name, value in MEMBER_MAY:
        assert member.post(address, {"priority": name}).status_code == 302
        assert Run.objects.get().priority == value
    assert member.post(address, {"priority": "now"}).status_code == 302
    assert Run.objects.get().priority == Run.Priority.NORMAL
    who.owner.post(address, {"priority": "high"})
    assert Run.objects.get().priority == Run.Priority.HIGH


def test_the_form_launches_with_the_selected_requirements(who: Visitors, member: Client) -> None:
    fields = fields_of(who.owner.get("/runs/new").content.decode())
    requirements = {"queue": "h100", "gpus": "4", "priority": "high"}
    assert member.post("/runs/new", fields | requirements).status_code == 403
    assert not Run.objects.exists()
    who.owner.post("/runs/new", fields | requirements)
    run = Run.objects.get()
    assert (run.queue, run.gpus, run.priority) == ("h100", 4, Run.Priority.HIGH)
    clone = fields_of(who.owner.get(f"/runs/new?clone={run.slug}").content.decode())
    assert (clone["queue"], clone["gpus"], clone["priority"]) == ("h100", "4", "normal")


def test_impossible_requirements_are_reported_at_their_field(who: Visitors) -> None:
    fields = fields_of(who.owner.get("/runs/new").content.decode()) | {"gpus": "many", "queue": "two words"}
    response = who.owner.post("/runs/new", fields)
    page = html.unescape(response.content.decode())
    assert response.status_code == 422
    assert "must be a whole number from 0 to 64, or empty" in page
    assert "must be a name of letters" in page
    assert not Run.objects.exists()


def test_the_page_and_the_list_show_why_a_run_waits(run: Run, who: Visitors) -> None:
    Run.objects.update(queue="gpu", gpus=2)
    worker("one@here", queues=["training", "gpu"], gpus=[{"id": "0", "name": "A", "total": None, "free": None}])
    message = "Waiting for a worker of class gpu with 2 GPUs; the largest running one has 1"
    for address in (f"/runs/{run.slug}/", "/", "/workers"):
        assert message in html.unescape(who.owner.get(address).content.decode()), address


def test_the_workers_page_shows_which_run_uses_which_gpu(run: Run, who: Visitors) -> None:
    gpus = [{"id": str(number), "name": "A100", "total": 80 * 2**30, "free": 2**30} for number in range(2)]
    one = worker("one@here", queues=["training", "gpu"], device_class="h100", gpus=gpus)
    Run.objects.update(state=Run.State.RUNNING, worker=one, reserved=["1"])
    page = html.unescape(who.viewer.get("/workers").content.decode())
    assert contains(page, "class h100")
    assert contains(page, "GPU 0, A100: 1.0 of 80.0 GiB free · free")
    assert contains(page, f'GPU 1, A100: 1.0 of 80.0 GiB free · <a href="/runs/{run.slug}/">Trial</a>')
    stranger = html.unescape(who.outsider.get("/workers").content.decode())
    assert contains(stranger, "GPU 1, A100: 1.0 of 80.0 GiB free · 1 run of others")


def test_an_unregistered_worker_claims_nothing(run: Run) -> None:
    assert serve("nobody@nowhere") == "this worker has not sent a heartbeat yet"
    assert Run.objects.get().state == Run.State.QUEUED


def test_the_api_shows_why_a_run_waits_and_accepts_requirements(run: Run, who: Visitors, member: Client) -> None:
    payload = who.owner.get(f"/api/runs/{run.slug}").json()
    assert (payload["queue"], payload["gpus"], payload["priority"]) == ("training", 0, "normal")
    assert payload["waiting"] == {"position": 1, "message": "Waiting for a worker; none is running", "possible": False}
    Run.objects.update(state=Run.State.FINISHED)
    assert who.owner.get(f"/api/runs/{run.slug}").json()["waiting"] is None
