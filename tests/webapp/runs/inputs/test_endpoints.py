"""Hosted models on the site: only endpoints allowed by its operator, each only with its own key."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_django import Settings

from tests.webapp.api.api_clients import Callers, callers
from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, who
from tests.webapp.pages.runs.test_launch_views import fields_of
from tests.webapp.worker.test_supervisor import INTERVALS, act, fresh, take
from trainer.config.hosted import HostedConfig
from trainer.config.run import RunConfig
from webapp.runs import summaries
from webapp.runs.inputs import endpoints
from webapp.runs.launch import estimates
from webapp.runs.models import Run
from webapp.runs.queue import device_classes
from webapp.worker.supervisor import supervise

__all__ = ["callers", "who"]
OPENAI = "https://api.openai.com/v1"
LISTED = [f"{OPENAI}=OPENAI_API_KEY", "http://models:8000/v1/"]
PRESET = "sokoban-starpo_s-pocket"


def section(url: str, variable: str = "OPENAI_API_KEY") -> HostedConfig:
    return HostedConfig(url=url, model="m", api_key_env=variable)


def configuration(url: str = OPENAI, **changes: Any) -> RunConfig:
    return RunConfig.model_validate({"kind": "evaluate", "hosted": {"url": url, "model": "gpt-4o-mini"} | changes})


@pytest.fixture(autouse=True)
def _listed(settings: Settings) -> None:
    settings.ECHOSCOPE_HOSTED_URLS = LISTED


@pytest.mark.parametrize(
    ("url", "variable"),
    [(OPENAI, "OPENAI_API_KEY"), ("HTTPS://API.openai.com/v1/", "OPENAI_API_KEY"), ("http://models:8000/v1", "")],
)
def test_a_listed_endpoint_may_be_used_with_its_own_key(url: str, variable: str) -> None:
    assert endpoints.hosted_problem(section(url, variable)) is None


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/v1",
        "http://api.openai.com/v1",
        f"{OPENAI}/../v1",
        "https://api.openai.com/v1.evil.example",
        "https://api.openai.com:444/v1",
        "http://169.254.169.254/latest",
        "http://models:8000",
    ],
)
def test_an_unlisted_endpoint_is_refused(url: str) -> None:
    found = endpoints.hosted_problem(section(url))
    assert found is not None
    assert found[0] == "hosted.url"
    assert f"may not use {url}" in found[1]
    assert OPENAI in found[1]


@pytest.mark.parametrize(
    ("url", "variable", "message"),
    [
        (OPENAI, "DATABASE_URL", "must be OPENAI_API_KEY for"),
        (OPENAI, "", "must be OPENAI_API_KEY for"),
        ("http://models:8000/v1", "ECHOSCOPE_SECRET_KEY", "must be empty for"),
    ],
)
def test_another_secret_is_refused(url: str, variable: str, message: str) -> None:
    found = endpoints.hosted_problem(section(url, variable))
    assert found is not None
    assert found[0] == "hosted.api_key_env"
    assert message in found[1]


def test_without_a_list_every_endpoint_is_refused(settings: Settings) -> None:
    settings.ECHOSCOPE_HOSTED_URLS = []
    found = endpoints.hosted_problem(section(OPENAI))
    assert found is not None
    assert f"ECHOSCOPE_HOSTED_URLS={OPENAI}=" in found[1]
    assert endpoints.hosted_problem(HostedConfig()) is None


def test_the_form_rejects_unlisted_endpoints_and_launches_listed_ones(who: Visitors) -> None:
    page = who.owner.get(f"/runs/new?preset={PRESET}").content.decode()
    fields = fields_of(page) | {"kind": "evaluate", "hosted.url": "https://evil.example/v1", "hosted.model": "m"}
    refused = who.owner.post("/runs/new", fields)
    assert refused.status_code == 422
    assert "runs of this site may not use https://evil.example/v1" in refused.content.decode()
    assert not Run.objects.exists()
    assert who.owner.post("/runs/new", fields | {"hosted.url": OPENAI}).status_code == 302
    assert Run.objects.get().config["hosted"]["model"] == "m"


def test_the_api_rejects_unlisted_endpoints_for_new_runs_and_clones(callers: Callers, people: People) -> None:
    wanted = {"kind": "evaluate", "hosted.url": "http://10.0.0.1/v1", "hosted.model": "m"}
    refused = callers.owner.post("/api/runs", {"preset": PRESET, "overrides": wanted})
    assert refused.status_code == 422
    assert "may not use http://10.0.0.1/v1" in refused.content.decode()
    made = callers.owner.post("/api/runs", {"preset": PRESET, "overrides": wanted | {"hosted.url": OPENAI}})
    assert made.status_code == 201, made.content
    stolen = {"overrides": {"hosted.api_key_env": "DATABASE_URL"}}
    assert callers.owner.post(f"/api/runs/{made.json()['slug']}/clone", stolen).status_code == 422
    assert Run.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_worker_uses_its_own_list_not_the_database(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(config=configuration("http://10.0.0.1/v1").model_dump(mode="json"))
    assert supervise(take(run), command=act("train"), intervals=INTERVALS) == "failed"
    assert "This run is not allowed on this site: hosted.url: runs of this site may not use" in fresh(run).failure
    assert not (run.folder / "journal.jsonl").exists()


def test_a_hosted_model_is_shown_by_name_and_needs_no_device(people: People) -> None:
    config = configuration(price_per_million=[0.0, 2.0])
    assert summaries.algorithm_text(config.model_dump()) == "Evaluation · gpt-4o-mini"
    requested = config.model_copy(update={"policy": config.policy.model_copy(update={"device": "cuda"})})
    assert device_classes.suggested_class(requested, ["cpu", "gpu"]) == "cpu"
    assert device_classes.default_gpus(requested, "training") == 0
    figures = {figure.title: figure.value for figure in estimates.figures(people.owner, config)}
    written = 256 * 5 * 96
    assert figures["Cost of generated tokens"] == f"at most {written * 2 / 1e6:.2f}"
    assert figures["Time"] == "unknown"
