"""How a run was started, what its machine did, and where its time went, as the recorder sends it."""

from __future__ import annotations

import json
import pickle
import subprocess
from pathlib import Path
from typing import Any

import pytest

import echoscope
from echoscope.recording import system_watch
from echoscope.recording.phase_spans import MAX_SPANS, PhaseSpans
from echoscope.recording.provenance import command_line, provenance
from echoscope.recording.system_watch import SystemWatch
from tests.patience import wait_until
from trainer.journal import reader
from trainer.journal.events import IterationTimeline, Metrics, RunStarted


def written(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["train.py", "--lr", "1e-6"], "train.py --lr 1e-6"),
        (["train.py", "--hub-token", "hf_x", "--n", "2"], "train.py --hub-token '***' --n 2"),
        (["train.py", "--api_key=abc", "wandb.KEY=x"], "train.py '--api_key=***' 'wandb.KEY=***'"),
        (["train.py", "redis://me:pw@host/0"], "train.py 'redis://me:***@host/0'"),
        (["train.py", "--PASSWORD", "a b"], "train.py --PASSWORD '***'"),
    ],
)
def test_values_of_secrets_are_not_recorded(arguments: list[str], shown: str) -> None:
    assert command_line(arguments) == shown


def test_the_state_of_the_code_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "commit" not in provenance(), "no repository"
    for command in (
        ["init", "-q"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"],
    ):
        subprocess.run(["git", *command], check=True)
    known = provenance()
    assert (len(known["commit"]), known["uncommitted"]) == (40, False)
    assert known["versions"].keys() >= {"python", "torch", "transformers"}
    monkeypatch.setenv("PATH", "")
    assert "commit" not in provenance(), "no git"


def test_a_run_begins_with_its_provenance_unless_it_is_not_wanted(tmp_path: Path) -> None:
    with echoscope.init("Private", folder=tmp_path / "private", machine=False) as run:
        run.log({"x": 1}, iteration=1)
    assert "started_with" not in written(tmp_path / "private")[0]["config"]
    echoscope.init("Open", folder=tmp_path / "open").finish()
    (started, *_) = reader.read(tmp_path / "open" / "journal.jsonl")
    assert isinstance(started, RunStarted)
    assert started.config["started_with"]["versions"]["python"]


def test_the_phases_of_an_iteration_are_its_timeline(tmp_path: Path) -> None:
    with echoscope.init("Timed", folder=tmp_path) as run:
        for iteration in (1, 2):
            with run.phase("rollout"), pytest.raises(KeyError), run.phase("environment"):
                raise KeyError("of the loop")
            with run.phase("update"):
                pass
            run.log({"loss": 0.5}, iteration=iteration)
            run.log({"other": 0.5}, iteration=iteration)
    laps = [event for event in reader.read(tmp_path / "journal.jsonl") if isinstance(event, IterationTimeline)]
    assert [lap.iteration for lap in laps] == [1, 2]
    for lap in laps:
        assert sorted(kind for span in lap.tracks["trainer"] for kind in span.work) == [
            "environment",
            "rollout",
            "update",
        ]
        assert max(span.start + span.seconds for span in lap.tracks["trainer"]) <= lap.seconds + 0.001


def test_many_phases_are_merged_and_none_is_lost() -> None:
    spans = PhaseSpans()
    for number in range(3 * MAX_SPANS):
        spans.end("rollout" if number % 2 else "update", spans.begin())
    lap = spans.take()
    assert lap is not None
    assert len(lap["tracks"]["trainer"]) == MAX_SPANS
    assert spans.take() is None
    assert isinstance(pickle.loads(pickle.dumps(spans)), PhaseSpans)


def test_a_phase_of_any_value_harms_no_loop(tmp_path: Path) -> None:
    run = echoscope.init("Odd", folder=tmp_path)
    for kind in (None, 3, "x" * 10_000, object()):
        with run.phase(kind):  # type: ignore[arg-type]
            pass
    run.log({"x": 1.0}, iteration=1)
    run.finish()
    assert [event["type"] for event in written(tmp_path)].count("timeline") == 1
    list(reader.read(tmp_path / "journal.jsonl"))


def test_use_of_processor_and_gpus_is_part_of_the_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_watch, "INTERVAL", 0.01)
    monkeypatch.setattr(system_watch, "SHORTEST", 0.0)
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho '50, 1024'\necho '100, 1024'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    run = echoscope.init("Busy", folder=tmp_path / "run")
    watch = run._system
    assert isinstance(watch, SystemWatch)
    wait_until(lambda: bool(watch._utilization))
    run.log({"loss": 0.5, "system/cpu_percent": 7.0}, iteration=1)
    run.finish()
    metrics = next(event for event in reader.read(tmp_path / "run" / "journal.jsonl") if isinstance(event, Metrics))
    assert metrics.values["system/gpu_utilization"] == 0.75
    assert metrics.values["system/gpu_memory_bytes"] == 2**31
    assert metrics.values["system/memory_bytes"] > 1e6
    assert metrics.values["system/cpu_percent"] == 7.0, "the caller's own value counts"
    assert pickle.loads(pickle.dumps(run))._system is None
