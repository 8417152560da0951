"""Upload while a run is being recorded: addresses that cannot be a site's, and warnings."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

import echoscope
from echoscope.client import Client
from tests.patience import SECONDS


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
    run = echoscope.init("Wordle", folder=tmp_path, url="https://echoscope.example", token="es_x")
    assert run.upload is not None
    assert began.wait(SECONDS)
    with pytest.warns(RuntimeWarning) as warned:
        run.upload.finish(0.0)
    answered.set()
    run.upload.finish(SECONDS)
    assert run.upload.url == "https://echoscope.example/runs/1"
    assert [str(warning.message) for warning in warned] == [
        f"The journal could not be sent within 0 s. The journal in {tmp_path} is complete: "
        f"`python -m echoscope push {tmp_path}` sends it."
    ]
