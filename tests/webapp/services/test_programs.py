"""Definitions of the site's programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from webapp.services import programs
from webapp.worker.supervisor import Intervals


@pytest.mark.parametrize("seconds", ["", "7", "900"])
def test_the_worker_may_stop_as_long_as_its_runs(seconds: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHOSCOPE_STOP_SECONDS", seconds)
    allowed = Intervals().stop_timeout
    assert allowed == float(seconds or 120)
    assert programs.worker({}, tmp_path).stop_seconds >= allowed + 5
