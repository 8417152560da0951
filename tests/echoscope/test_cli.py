"""Command line of the client, against a real site."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

import echoscope
from echoscope.cli import main
from tests.webapp import journal_builder
from tests.webapp.page_requests import play
from webapp.runs.models import Run
from webapp.trajectories.models import ShareLink, Trajectory


@pytest.fixture
def shell(
    live_server: LiveServer, secret: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    """Runs a command. Returns its exit status, standard output and standard error."""
    monkeypatch.setenv("ECHOSCOPE_URL", live_server.url)
    monkeypatch.setenv("ECHOSCOPE_TOKEN", secret)

    def run(*words: str) -> tuple[int, str, str]:
        status = main(words)
        output = capsys.readouterr()
        return status, output.out, output.err

    return run


def test_a_run_is_launched_listed_shown_and_controlled(shell: Any) -> None:
    status, out, _ = shell("launch", "bandit-starpo_s-pocket", "--set", "iterations=3", "--set", "name=From the shell")
    slug = out.split()[0]
    assert (status, Run.objects.get().slug) == (0, slug)
    assert shell("pause", slug)[1] == "From the shell: paused, iteration 0 of 3\n"
    status, _, err = shell("pause", slug)
    assert (status, "cannot pause now" in err) == (1, True)
    assert slug in shell("runs", "--state", "paused")[1]
    assert "by ada" in shell("show", slug)[1]
    assert json.loads(shell("--json", "show", slug)[1])["slug"] == slug
    assert shell("watch", slug)[1].startswith("From the shell: paused")
    assert shell("clone", slug, "--set", "seed=4")[0] == 0
    assert Run.objects.count() == 2


def test_invalid_settings_are_reported_by_field_on_standard_error(shell: Any) -> None:
    status, out, err = shell("launch", "bandit-starpo_s-pocket", "--set", "iterations=0")
    assert (status, out) == (1, "")
    assert "  iterations: must be greater than 0" in err
    assert shell("launch", "bandit-starpo_s-pocket", "--set", "iterations")[0] == 1


def test_a_missing_site_or_token_is_reported_with_what_to_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ECHOSCOPE_URL", raising=False)
    monkeypatch.delenv("ECHOSCOPE_TOKEN", raising=False)
    assert main(["me"]) == 2
    assert "set ECHOSCOPE_URL and ECHOSCOPE_TOKEN" in capsys.readouterr().err


def test_a_journal_is_pushed(shell: Any, tmp_path: Path) -> None:
    journal_builder.write(tmp_path, *journal_builder.whole_run(1))
    status, out, _ = shell("push", str(tmp_path), "--title", "Far away")
    assert (status, "Far away: finished, iteration 1 of 4" in out) == (0, True)


def test_no_number_of_iterations_is_printed_where_none_was_planned(shell: Any, tmp_path: Path) -> None:
    run = echoscope.init("Unplanned", folder=tmp_path)
    run.log({"loss": 1.0}, iteration=15)
    run.finish()
    status, out, _ = shell("push", str(tmp_path))
    assert (status, "Unplanned: finished, iteration 15; 3 events" in out) == (0, True)
    assert "finished      15          Unplanned" in shell("runs")[1]


def test_results_of_a_run_are_exported_and_a_trajectory_is_shared(shell: Any, run_on_site: Run, tmp_path: Path) -> None:
    play(run_on_site, 2)
    out = tmp_path / "all.jsonl"
    assert shell("export", run_on_site.slug, "--out", str(out))[0] == 0
    output = [json.loads(line) for line in out.read_text().splitlines()]
    assert {line["trajectory"]["slug"] for line in output} == set(Trajectory.objects.values_list("slug", flat=True))
    points = [json.loads(line) for line in shell("export", run_on_site.slug, "metrics")[1].splitlines()]
    assert len(points) == run_on_site.metrics.count()
    assert "iterations: 4" in shell("export", run_on_site.slug, "config")[1]
    address = shell("share", output[0]["trajectory"]["slug"])[1].strip()
    assert shell("revoke", address)[0] == 0
    assert ShareLink.objects.get().revoked_at is not None
