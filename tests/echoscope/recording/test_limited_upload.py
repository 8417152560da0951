"""A recorder whose token may send few requests waits, and loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

import echoscope
from echoscope import journal as sending
from echoscope.transport import Transport
from tests.echoscope.conftest import client, people, people_on_site, run, secret
from webapp.core import token_buckets
from webapp.runs.models import Run
from webapp.trajectories.models import Turn

__all__ = ["client", "people", "people_on_site", "run", "secret"]

TURNS = 30


def test_a_recorder_backs_off_and_loses_nothing(
    live_server: LiveServer, secret: str, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ECHOSCOPE_MAX_REQUESTS_PER_MINUTE_PER_TOKEN = 3
    monkeypatch.setattr(token_buckets, "PERIOD", 300.0)  # a request is allowed every 100 seconds
    monkeypatch.setattr(token_buckets, "shared", lambda *_: None)  # it counts in this process, as without Redis
    monkeypatch.setattr(sending, "CHUNK_BYTES", 400)  # a line or two
    waits: list[str | None] = []

    def pass_time(_transport: Transport, _attempt: int, retry_after: str | None) -> None:
        waits.append(retry_after)
        token_buckets._own._kept.clear()

    monkeypatch.setattr(Transport, "_wait", pass_time)
    recorded = echoscope.init("Limited", folder=tmp_path, url=live_server.url, token=secret)
    with recorded.trajectory(prompt="Play.", iteration=1) as attempt:
        for number in range(TURNS):
            attempt.turn(state=f"state {number}", response=f"move {number}")
    recorded.finish()
    sent = Run.objects.get(title="Limited")
    assert sent.state == "finished"
    assert sent.journal_offset == (tmp_path / "journal.jsonl").stat().st_size
    turns = Turn.objects.filter(trajectory__run=sent).order_by("number")
    assert [turn.event["response"] for turn in turns] == [f"move {number}" for number in range(TURNS)]
    assert len(waits) > 3, "the limit was reached again and again"
    assert all(int(wait or 0) in range(1, 101) for wait in waits)
