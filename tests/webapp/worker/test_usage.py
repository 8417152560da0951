"""Use of a worker's machine: history in the heartbeat, shown on the page of workers."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.webapp.page_requests import Visitors, who
from trainer.memory import gpu_usage
from webapp.runs.models import Worker
from webapp.worker import usage
from webapp.worker.usage import UsageHistory

__all__ = ["who"]


def test_the_history_is_bounded_and_holds_what_the_machine_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_usage, "visible_gpus", lambda: [(0.5, 10), (1.0, 10)])
    monkeypatch.setattr(usage, "SAMPLES", 3)
    history = UsageHistory()
    for _ in range(5):
        found = history.sample([{"name": "Machine", "total": 100, "free": 25}])
    assert found["memory"] == [0.75] * 3
    assert found["gpu"] == [0.75] * 3
    assert all(0 <= share <= 1 for share in found["cpu"])
    assert 0 < found["disk_free"] < found["disk_total"]
    monkeypatch.setattr(gpu_usage, "visible_gpus", list)
    assert "gpu" not in UsageHistory().sample([])


@pytest.mark.django_db
def test_the_page_of_workers_shows_the_present_use_with_a_line(who: Visitors) -> None:
    now = timezone.now()
    figures = {"cpu": [0.1, 0.425], "memory": [0.5], "disk_free": 2**31, "disk_total": 2**33}
    Worker.objects.create(name="w", started_at=now, last_seen_at=now, usage=figures)
    gone = now - timedelta(hours=1)
    Worker.objects.create(name="lost", started_at=gone, last_seen_at=gone, usage={"cpu": [0.99]})
    page = who.viewer.get("/workers").content.decode()
    assert "42.5" in page
    assert "2.0 of 8.0 GiB free" in page
    assert page.count("<polyline") == 2
    assert "99.0" not in page, "a lost worker uses nothing"
