"""The soak test with twenty disturbances: nothing is lost, doubled, stuck or left over."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import SECONDS
from webapp.services.addresses import ROOT

KILLS = 20


@pytest.mark.nightly
def test_twenty_disturbances_lose_nothing(tmp_path: Path) -> None:
    figures = tmp_path / "soak.json"
    words = ["--kills", KILLS, "--seed", 3, "--pause", 0.8, "--iterations", 25, "--seeds", 1, "--runs", 2, "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "bench.soak", *map(str, words), str(figures)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=4 * SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    outcome = json.loads(figures.read_text())
    assert len(outcome["disturbances"]) == KILLS
    assert all(each["recovery"] is not None for each in outcome["disturbances"])
    assert outcome["faults"] == []
    assert min(outcome["runs"], outcome["events"], outcome["received"]) > 0
