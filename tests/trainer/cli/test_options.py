"""Options of the command line: log level and profiler."""

from __future__ import annotations

import json
import logging
import pstats
from pathlib import Path

import pytest

from tests.trainer import tiny
from trainer.cli import main
from trainer.cli.parser import parser
from trainer.cli.profiling import profiled
from trainer.journal import run_log
from trainer.journal.events import Metrics, Notice, Phase
from trainer.journal.writer import Journal


def test_records_carry_rank_phase_and_iteration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_log.configure("info")
    journal = Journal(tmp_path)
    journal.write(Phase(phase="rollout", iteration=3), Notice(level="warning", message="Slow."))
    journal.write(Metrics(iteration=3, tokens=1, seconds=1.0, values={"reward/mean": 0.25}))
    logging.getLogger("trainer.engines").info("ready")
    logging.getLogger("trainer.engines").debug("hidden")
    journal.close()
    run_log.configure("warning")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ", 1)[1].rpartition(" [")[0] for line in lines] == ["Slow.", "reward/mean 0.25", "ready"]
    assert all("rank 0, rollout, iteration 3: " in line for line in lines)
    assert " WARNING " in lines[0]


def test_the_log_level_is_accepted_before_or_after_the_command() -> None:
    base = ["train", "--preset", "sokoban-pocket", "--out", "o"]
    assert parser().parse_args(base).log_level == "warning"
    assert parser().parse_args(["--log-level", "debug", *base]).log_level == "debug"
    assert parser().parse_args([*base, "--log-level", "info"]).log_level == "info"


def test_a_run_is_profiled(tmp_path: Path, pocket_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    file = tmp_path / "run.yaml"
    file.write_text(json.dumps(tiny.config(pocket_folder, iterations=1).model_dump(mode="json")))
    profile = tmp_path / "profiles" / "train.prof"
    command = ["train", "--config", str(file), "--out", str(tmp_path / "run"), "--profile", str(profile)]
    assert main.main(command) == 0
    functions = {name for _, _, name in pstats.Stats(str(profile)).stats}  # type: ignore[attr-defined]
    assert {"_train", "play"} <= functions


def test_a_json_path_writes_a_trace_and_one_file_per_other_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "2")
    with profiled(tmp_path / "trace.json"):
        sum(range(10))
    assert "traceEvents" in json.loads((tmp_path / "trace.rank-2.json").read_text())
    with profiled(None):
        pass
    assert len(list(tmp_path.iterdir())) == 1
