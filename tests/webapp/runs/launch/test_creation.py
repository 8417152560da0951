"""A launch that is sent twice at once launches once, whichever statement the second one meets the first at."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from pytest_django import Settings

from tests.webapp.conftest import People
from trainer.config.files import load_preset
from webapp.runs.launch.creation import do_create_run
from webapp.runs.models import Run
from webapp.runs.queue import run_quotas


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("met_at", "places"), [("queue", 0), ("queue", 1), ("insert", 0)])
def test_two_launches_with_one_key_return_the_same_run(
    met_at: str, places: int, people: People, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ECHOSCOPE_MAX_QUEUED_RUNS_PER_TEAM = places
    barrier = threading.Barrier(2, timeout=20)

    def met(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **named: Any) -> Any:
            barrier.wait()
            return function(*arguments, **named)

        return wrapped

    if met_at == "queue":
        monkeypatch.setattr(run_quotas, "require_place_in_queue", met(run_quotas.require_place_in_queue))
    else:
        monkeypatch.setattr(Run, "save", met(Run.save))
    config, made, failed = load_preset("sokoban-pocket"), [], []

    def launch() -> None:
        try:
            made.append(do_create_run(people.team, people.owner, config, launch_key="double-click").pk)
        except Exception as error:  # noqa: BLE001 - shown by the assertion
            failed.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=launch) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert made == [Run.objects.get().pk] * 2
