"""Models on the launch form, the workers page and the list of runs: cards, download, deletion, the first real model."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from tests.webapp.api.api_clients import Callers, callers
from tests.webapp.conftest import People
from tests.webapp.fragments import compact
from tests.webapp.page_requests import Visitors, who
from tests.webapp.pages.runs.test_launch_views import fields_of
from trainer.config.catalogue import catalogue
from trainer.config.files import load_preset
from trainer.config.run import RunConfig
from trainer.models.listing import size_text
from webapp.pages.models import model_views
from webapp.runs.model_cards import real_model
from webapp.runs.model_cards.fit import fits
from webapp.runs.models import Run, StoredModel, Worker
from webapp.runs.queue.order import queue_positions
from webapp.runs.stored_models import model_requests
from webapp.teams.actions import do_set_role
from webapp.teams.models import Membership, User

__all__ = ["callers", "who"]
NAME, PRESET = "smollm2-135m", "bandit-starpo_s-pocket"
GIB = 2**30
State = StoredModel.State


def worker(name: str, store: str, **fields: Any) -> Worker:
    now = timezone.now()
    memory = [{"name": "Machine", "total": 24 * GIB, "free": 20 * GIB}]
    given = {"queues": ["training"], "model_store": store, "memory": memory, "last_seen_at": now} | fields
    return Worker.objects.create(name=name, started_at=now, **given)


@pytest.fixture
def here(people: People) -> Worker:
    return worker("worker@here", "store")


def page(client: Any, address: str) -> str:
    return html.unescape(client.get(address).content.decode())


def card_of(text: str, name: str) -> str:
    """The part of a launch page with the card of a model."""
    start = text.index(f'id="model-{name.replace(".", "-")}"')
    end = text.find("data-model-card", start)
    return compact(text[start:end])


def test_every_model_has_a_card_and_the_pocket_policy_is_the_first_and_chosen(here: Worker, who: Visitors) -> None:
    text = page(who.owner, f"/runs/new?preset={PRESET}")
    values = re.findall(r'type="radio" name="model_card" id="[^"]*" value="([^"]*)"', text)
    assert values[0] == "pocket"
    assert sorted(values) == sorted(["pocket", *catalogue(), ""])
    assert "checked" in re.findall(r'<input type="radio" name="model_card" id="model-pocket".*?>', text, re.S)[0]
    card = card_of(text, NAME)
    for words in ("135 M parameters", "Apache-2.0", "no thinking mode", "93 to 273 MB to download", "Fits", "Download"):
        assert words in card
    gated = next(model.name for model in catalogue().values() if model.gated)
    assert "HF_TOKEN" in card_of(text, gated)


def test_a_card_chooses_the_model_of_the_run_and_the_button_downloads_it(here: Worker, who: Visitors) -> None:
    fields = fields_of(page(who.owner, f"/runs/new?preset={PRESET}")) | {"model_card": NAME}
    check = who.owner.post("/runs/new/check", fields).content.decode()
    assert 'data-launch-word="Download and launch"' in check
    who.owner.post("/runs/new", fields)
    run, stored = Run.objects.get(), StoredModel.objects.get()
    assert run.config["policy"]["model"] == NAME
    assert (stored.name, stored.store, stored.state, stored.requested_by) == (NAME, "store", State.QUEUED, run.author)
    check = who.owner.post("/runs/new/check", fields).content.decode()
    assert 'data-launch-word="Launch"' in check, "it is on its way"


def test_nothing_is_launched_if_the_model_cannot_be_downloaded(here: Worker, who: Visitors) -> None:
    Worker.objects.update(usage={"disk_free": 1000, "disk_total": 10**12})
    fields = fields_of(page(who.owner, f"/runs/new?preset={PRESET}")) | {"model_card": NAME}
    response = who.owner.post("/runs/new", fields)
    assert response.status_code == 409
    assert "The disk of worker@here has 0.0 GB free" in html.unescape(response.content.decode())
    assert not Run.objects.exists()
    assert not StoredModel.objects.exists()


def test_a_model_that_is_named_otherwise_leaves_all_cards_unchosen(people: People, who: Visitors) -> None:
    text = page(who.owner, "/runs/new?preset=bandit-starpo_s-paper")
    hub_id = load_preset("bandit-starpo_s-paper").policy.model
    assert f'value="{hub_id}"' in card_of(text, "qwen2.5-0.5b"), "the card of the same model"
    fields = fields_of(text)
    assert fields["model_card"] == hub_id
    other = fields | {"model_card": "", "policy.model": "Someone/Else"}
    who.owner.post("/runs/new", other)
    assert Run.objects.get().config["policy"]["model"] == "Someone/Else"
    refused = who.owner.post("/runs/new", other | {"policy.model": "smollm3"}).content.decode()
    assert "no model 'smollm3' is in the catalogue" in html.unescape(refused)


def test_the_progress_of_a_download_is_swapped_into_its_card(here: Worker, people: People, who: Visitors) -> None:
    StoredModel.objects.create(
        name=NAME,
        store="store",
        state=State.DOWNLOADING,
        worker=here,
        requested_by=people.owner,
        seen_at=timezone.now(),
        stage="download",
        done_bytes=38_000_000,
        total_bytes=92_871_040,
    )
    text = page(who.viewer, "/models/status")
    assert 'hx-trigger="every 1s"' in text
    assert "Downloading on worker@here (41%) · 38 of 93 MB" in compact(text)
    assert f'id="status-model-{NAME}" hx-swap-oob="true"' in text
    assert "Cancel" not in text
    assert "Cancel" in page(who.owner, "/models/status")
    StoredModel.objects.update(total_bytes=3_427_000_000)
    assert "· 38 MB of 3.4 GB" in compact(page(who.viewer, "/models/status"))
    StoredModel.objects.update(seen_at=timezone.now() - timedelta(minutes=1))
    assert "worker@here stopped during the download" in compact(page(who.owner, "/models/status")).lower()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "its model SmolLM2 135M Instruct, which is not installed on worker@here: download it on the launch form"),
        ({"state": State.QUEUED}, "SmolLM2 135M Instruct: its download waits for the worker"),
        ({"state": State.DOWNLOADING, "done_bytes": 41, "total_bytes": 100}, "downloading on a worker (41%)"),
        ({"state": State.DOWNLOADING, "stage": "convert"}, "downloaded, now being converted on a worker"),
        ({"state": State.FAILED, "error": "The disk is full."}, "whose download failed: The disk is full."),
        ({"state": State.INSTALLED}, "1st in the queue"),
    ],
)
def test_a_run_without_its_model_shows_the_reason_for_its_wait(
    changes: dict[str, Any], reason: str, here: Worker, run: Run
) -> None:
    run.config["policy"]["model"] = NAME
    run.save(update_fields=["config"])
    if changes:
        StoredModel.objects.create(name=NAME, store="store", seen_at=timezone.now(), **changes)
    assert reason in queue_positions(timezone.now())[run.pk].text


def test_a_refused_download_is_a_sentence_on_the_card(here: Worker, who: Visitors, settings: Settings) -> None:
    settings.ECHOSCOPE_MAX_MODELS_GB = 1
    address = "/models/smollm2-1.7b/download"
    response = who.owner.post(address, {"worker": "worker@here"}, headers={"HX-Request": "true"})
    assert "The models of worker@here use 0.0 of 1 GB, and SmolLM2 1.7B Instruct needs 3.4 GB more" in compact(
        response.content.decode()
    )
    User.objects.update(is_staff=True)
    who.owner.post(address)
    assert StoredModel.objects.get().state == State.QUEUED, "staff may download more"


def test_the_operator_s_list_of_models_holds_for_the_catalogue(
    here: Worker, people: People, settings: Settings
) -> None:
    settings.ECHOSCOPE_HUB_MODELS = ["Qwen/"]
    with pytest.raises(model_requests.RequestRefused, match="not among the models that the operator"):
        model_requests.do_request_download(people.owner, NAME)
    assert model_requests.do_request_download(people.owner, "qwen2.5-0.5b").state == State.QUEUED


def test_each_folder_has_its_own_copy(here: Worker, people: People) -> None:
    worker("a@elsewhere", "other")
    assert model_requests.do_request_download(people.owner, NAME, "worker@here").store == "store"
    assert model_requests.do_request_download(people.owner, NAME, "a@elsewhere").store == "other"
    with pytest.raises(model_requests.RequestRefused, match="no live worker lost"):
        model_requests.do_request_download(people.owner, NAME, "lost")
    assert not model_requests.needs_download(NAME)


def test_a_model_is_deleted_by_staff_or_the_member_who_downloaded_it(
    here: Worker, people: People, who: Visitors
) -> None:
    do_set_role(people.team, people.viewer, Membership.Role.MEMBER)
    StoredModel.objects.create(name=NAME, store="store", state=State.INSTALLED, requested_by=people.owner, bytes=10**8)
    assert "Delete SmolLM2" in page(who.owner, "/workers")
    assert "Delete SmolLM2" not in page(who.viewer, "/workers")
    assert who.viewer.post(f"/models/{NAME}/delete", {"store": "store"}).status_code == 403
    User.objects.filter(pk=people.outsider.pk).update(is_staff=True)
    assert who.outsider.post(f"/models/{NAME}/delete", {"store": "store"}).status_code == 302
    assert StoredModel.objects.get().state == State.DELETING


def test_the_workers_page_names_the_runs_that_block_a_deletion(here: Worker, run: Run, who: Visitors) -> None:
    StoredModel.objects.create(name=NAME, store="store", state=State.INSTALLED, requested_by=run.author, bytes=10**8)
    run.config["policy"]["model"] = NAME
    run.save(update_fields=["config"])
    text = page(who.owner, "/workers")
    assert "1 queued or running" in text
    assert "Cannot be deleted while a run uses it" in text


def test_memory_decides_which_workers_a_model_fits(people: People) -> None:
    gpu = {"id": "0", "name": "H100", "total": 80 * GIB, "free": 80 * GIB}
    crew = [
        worker("big", "a"),
        worker("tiny", "b", memory=[{"name": "Machine", "total": GIB // 4, "free": 0}]),
        worker("gpu", "c", gpus=[gpu]),
        worker("unknown", "d", memory=[]),
    ]
    config = load_preset(PRESET)
    config = config.model_copy(update={"policy": config.policy.model_copy(update={"model": NAME})})
    found = fits(config, crew)
    assert [fit.verdict for fit in found] == ["fits", "gpu", "fits", "unknown"]
    full, adapted = (fits(each, crew[:1])[0].needed for each in (config, _adapted(config)))
    assert full is not None
    assert adapted is not None
    between = worker("between", "e", memory=[{"name": "Machine", "total": (full + adapted) // 2, "free": 0}])
    (fit,) = fits(config, [between])
    assert (fit.verdict, fit.needed) == ("lora", adapted)


def _adapted(config: RunConfig) -> RunConfig:
    return config.model_copy(update={"lora": config.lora.model_copy(update={"rank": 64, "alpha": 64.0})})


def test_one_click_downloads_and_trains_a_real_model(
    here: Worker, people: People, who: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_preset(PRESET)
    config = config.model_copy(update={"policy": config.policy.model_copy(update={"model": NAME})})
    for module in (real_model, model_views):
        monkeypatch.setattr(module, "load_preset", lambda name: config)
    assert "Train a real model (93 to 273 MB)" in page(who.owner, "/")
    assert "Train a real model" not in page(who.viewer, "/")
    response = who.owner.post("/models/real")
    run = Run.objects.get()
    assert response.headers["Location"] == f"/runs/{run.slug}/"
    assert StoredModel.objects.get().state == State.QUEUED
    assert who.owner.post("/models/real").headers["Location"] == f"/runs/{run.slug}/"
    assert Run.objects.count() == 1
    error = "Neither the Hub nor the package index can be reached from worker@here."
    StoredModel.objects.update(state=State.FAILED, error=error)
    assert error in page(who.owner, "/")
    StoredModel.objects.update(state=State.INSTALLED)
    assert re.search(r"Train a real model\s*<", page(who.owner, "/"))


def test_the_preset_of_the_first_real_model_names_a_model_of_the_catalogue() -> None:
    assert load_preset(real_model.REAL_MODEL_PRESET).policy.model in catalogue()


def test_the_api_lists_downloads_and_deletes_models(here: Worker, callers: Callers) -> None:
    listed = {model["name"]: model for model in callers.viewer.get(f"/api/models?preset={PRESET}").json()}
    assert listed.keys() == {"pocket", *catalogue()}
    assert [fit["verdict"] for fit in listed[NAME]["fits"]] == ["fits"]
    assert listed[NAME]["stores"][0]["state"] == "absent"
    requested = callers.owner.post(f"/api/models/{NAME}/download").json()
    assert requested["stores"][0] | {"workers": []} == {
        "workers": [],
        "state": "queued",
        "stage": "",
        "done_bytes": 0,
        "total_bytes": catalogue()[NAME].download_bytes,
        "bytes": 0,
        "error": "",
    }
    assert callers.owner.call("DELETE", f"/api/models/{NAME}").status_code == 204
    assert StoredModel.objects.get().state == State.DELETING, "its worker deletes what it has"
    assert callers.owner.post("/api/models/chess/download").status_code == 404
    assert size_text(1_000_000_000) == "1.0 GB"
