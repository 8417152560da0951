"""Commands of studies, against a real site."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.echoscope.test_cli import shell
from tests.webapp.studies.played import finish, runs_of
from webapp.runs.models import Run
from webapp.studies.models import Study

__all__ = ["shell"]


def test_a_grid_is_launched_shown_steered_shared_and_exported(shell: Any, tmp_path: Path) -> None:
    words = ("--preset", "bandit-starpo_s-pocket", "--vary", "algorithm.kl_coef=0,0.01", "--seeds", "3", "--key", "one")
    status, out, err = shell("study", "launch", *words, "--title", "Which KL?", "--set", "iterations=5")
    assert status == 0, err
    study = Study.objects.get()
    assert out.startswith(f"{study.slug}  running    Which KL?: 6 queued")
    assert {run.iterations for run in runs_of(study)} == {5}
    assert shell("study", "launch", *words, "--title", "Which KL?", "--set", "iterations=5")[0] == 0
    assert Study.objects.count() == 1
    for run in runs_of(study):
        finish(run, 0.5)
    shown = shell("study", "show", study.slug)[1]
    assert "KL penalty 0.01: 50.0 ± 0.0%, 3 of 3 complete" in shown
    assert "inconclusive" in shown
    assert study.slug in shell("study", "list", "--text", "KL")[1]
    assert "is running" not in shell("study", "pause", study.slug)[2]
    assert "cannot pause now" in shell("study", "pause", study.slug)[2]
    assert shell("study", "cancel", study.slug)[0] == 0
    assert shell("study", "share", study.slug)[1].endswith("  link\n")
    target = tmp_path / "study.csv"
    assert shell("study", "export", study.slug, "csv", "--out", str(target))[0] == 0
    assert len(target.read_text().splitlines()) == 7


def test_a_study_of_the_paper_and_a_search(shell: Any) -> None:
    assert shell("study", "launch", "figure-9", "--scale", "smoke", "--seeds", "1")[0] == 0
    assert Run.objects.count() == 6
    rate = "optimizer.policy_lr=1e-5..1e-2:log"
    words = ("--preset", "bandit-starpo_s-pocket", "--vary", rate, "--search", "bayesian", "--stop-early", "4", "3")
    status, _, err = shell("study", "launch", *words)
    assert status == 0, err
    spec = Study.objects.latest("pk").spec
    assert spec["space"] == [{"setting": "optimizer.policy_lr", "low": 1e-5, "high": 1e-2, "log": True, "values": []}]
    assert spec["early_stopping"] == {"min_iterations": 4, "reduction": 3}


def test_misuse_is_reported_with_what_to_give(shell: Any) -> None:
    assert "give --preset and at least one --vary" in shell("study", "launch")[2]
    assert "leave out --preset" in shell("study", "launch", "figure-9", "--preset", "bandit-starpo_s-pocket")[2]
    wrong = shell("study", "launch", "--preset", "bandit-starpo_s-pocket", "--vary", "iterations")
    assert "--vary takes SECTION.FIELD=VALUES" in wrong[2]
