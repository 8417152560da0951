"""Tests of learning curves: runs side by side, a deadline, and the archive of journals."""

from __future__ import annotations

import gzip
import subprocess
import sys
import tarfile

import pytest

from bench.learning import curves, side_by_side
from bench.learning.__main__ import planned
from trainer.journal import events, reader

SMALL = ["rollout.groups=2", "rollout.group_size=2", "evaluation.prompts=4", "policy.threads=1"]


@pytest.mark.nightly
def test_seeds_of_presets_run_side_by_side_and_are_archived(tmp_path):
    command = [sys.executable, "-m", "bench.learning", "--preset", "bandit-pocket", "--preset", "bandit-starpo-pocket"]
    command += ["--seeds", "1", "--jobs", "2", "--out", str(tmp_path / "runs"), "--archive", str(tmp_path / "archive")]
    command += [word for pair in [*SMALL, "iterations=1"] for word in ("--set", pair)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "bandit-pocket/seed-0: " in done.stdout
    assert "at iteration 1" in done.stdout
    (part,) = (tmp_path / "archive").iterdir()
    with tarfile.open(part) as tar:
        names = tar.getnames()
        journal = tar.extractfile("bandit-starpo-pocket/seed-0/journal.jsonl.gz")
        assert journal is not None
        lines = gzip.decompress(journal.read()).splitlines()
    assert "bandit-pocket/seed-0/config.yaml" in names
    assert isinstance(reader.parse_line(lines[-1], len(lines)), events.RunFinished)


@pytest.mark.nightly
def test_runs_at_the_deadline_end_with_a_checkpoint_and_failures_are_named(tmp_path):
    endless = planned(["bandit-pocket"], 1, [*SMALL, "iterations=100000"], tmp_path)
    assert side_by_side.run(endless, 2, 0.0, 1) == []
    assert not endless[0].folder.exists()  # none starts after the deadline
    broken = planned(["bandit-pocket"], 1, [*SMALL, "policy.model=/nowhere"], tmp_path / "broken")
    (problem,) = side_by_side.run(broken, 2, None, 1)
    assert problem.startswith("seed-0 failed with exit code 2: ")
    assert "/nowhere" in problem


def test_the_gain_counts_from_the_last_evaluation_before_reinforcement():
    run = curves.Learned("run", points=[(-8, 0.0, 0.0, 0.1), (0, 0.5, 0.4, 0.6), (10, 0.75, 0.6, 0.8)])
    assert run.gain == 25.0
    assert run.summary() == "run: 0.0% → 50.0% → 75.0% (+25.0 points) at iteration 10, 0.0 min of work"
    assert curves.Learned("run", points=[(-8, 0.0, 0.0, 0.1)]).gain is None
