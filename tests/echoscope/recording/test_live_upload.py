"""Upload while a run is being recorded: addresses that cannot be a site's, failures of the site, and warnings."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from pytest_django.live_server_helper import LiveServer

import echoscope
from echoscope.client import Client
from echoscope.errors import EchoscopeError, refusal
from echoscope.recording import live_upload
from tests.echoscope.recording.caught_warnings import caught_warnings
from tests.patience import SECONDS
from webapp.runs.models import Notice, Run
from webapp.trajectories.models import Turn

SITE = {"url": "https://echoscope.example", "token": "es_x"}


@pytest.mark.parametrize("address", ["localhost:8000", "echoscope.example", ""])
def test_a_site_without_http_is_refused_before_anything_is_recorded(address: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must begin with http:// or https://"):
        echoscope.init("Wordle", folder=tmp_path, url=address, token="es_x")
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_not_sent_in_time_ends_with_a_warning_that_names_the_command_to_send_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, answered = threading.Event(), threading.Event()

    def push(*arguments: object, **options: object) -> SimpleNamespace:
        began.set()
        answered.wait(SECONDS)
        return SimpleNamespace(url="https://echoscope.example/runs/1")

    monkeypatch.setattr(Client, "push_journal", push)
    run = echoscope.init("Wordle", folder=tmp_path, **SITE)
    assert run.upload is not None
    assert began.wait(SECONDS)
    with caught_warnings() as messages:
        run.upload.finish(0.0)
    answered.set()
    run.upload.finish(SECONDS)
    assert run.upload.url == "https://echoscope.example/runs/1"
    assert messages == [
        f"The journal could not be sent within 0 s. The journal in {tmp_path} is complete: "
        f"`python -m echoscope push {tmp_path}` sends it."
    ]


class FailingSite:
    """push_journal of a client: raises one of the failures at each call, and then succeeds."""

    def __init__(self, *failures: Exception) -> None:
        self.failures, self.calls = [*failures], 0

    def push(self, *arguments: object, **options: object) -> SimpleNamespace:
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        return SimpleNamespace(url="https://echoscope.example/runs/1")


def recorded_with(site: FailingSite, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[str]]:
    monkeypatch.setattr(Client, "push_journal", site.push)
    monkeypatch.setattr(live_upload, "RETRY_SECONDS", 0.0)
    with caught_warnings() as messages:
        run = echoscope.init("Wordle", folder=folder, **SITE)
        run.log({"loss": 1.0})
        run.finish(timeout=SECONDS)
    assert run.upload is not None
    return run.upload, messages


TEMPORARY: list[Exception] = [
    EchoscopeError("The site is unreachable."),
    refusal(500, {"message": "internal"}),
    refusal(503, {"message": "busy"}),
    refusal(429, {"message": "too many requests"}),
    httpx.RemoteProtocolError("cut off"),
    ValueError("an answer that is not JSON"),
    KeyError("slug"),
    OSError("the journal cannot be read"),
]


def test_a_site_that_is_away_is_tried_again_with_one_warning_for_each_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = FailingSite(*TEMPORARY, *TEMPORARY)
    upload, messages = recorded_with(site, tmp_path, monkeypatch)
    assert (site.calls, upload.url) == (2 * len(TEMPORARY) + 1, "https://echoscope.example/runs/1")
    assert len(messages) == len(TEMPORARY)
    assert all(f"`python -m echoscope push {tmp_path}` sends it." in message for message in messages)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_a_site_that_refuses_is_not_asked_again(status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = FailingSite(refusal(status, {"message": "No."}))
    upload, messages = recorded_with(site, tmp_path, monkeypatch)
    assert (site.calls, upload.url, len(messages)) == (1, None, 1)
    assert messages[0].startswith("The site refused the journal, which is not sent any further: No. The journal in ")


def test_a_line_that_no_site_reads_does_not_hold_up_what_follows(
    live_server: LiveServer, secret: str, tmp_path: Path
) -> None:
    with caught_warnings() as messages:
        run = echoscope.init("Lines", folder=tmp_path, url=live_server.url, token=secret)
        with (tmp_path / "journal.jsonl").open("ab") as file:
            file.write(b'{"seq":2,"time":1.0,"type":"metrics","iteration":"two","values":{},"seconds":0}\n')
            file.write(b'{"seq":3,"time":1.0,"type":"notice","level":"odd","message":"m"}\n')
        with run.trajectory(prompt="p", iteration=1) as attempt:
            attempt.turn(state="s", response="r")
        run.finish(timeout=SECONDS)
    stored = Run.objects.get()
    assert (stored.state, stored.journal_error) == ("finished", "")
    assert Turn.objects.count() == 1
    assert Notice.objects.filter(message__startswith="An event was left out").count() == 2
    (message,) = messages
    assert message.startswith("The site left out an event: line 2 is not an event: ")
