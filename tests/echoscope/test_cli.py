"""Command line of the client, against a real site."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

import echoscope
from echoscope.cli import main
from echoscope.output import YAML_ADVICE, load_config
from echoscope.transport import Transport
from tests.webapp import journal_builder
from tests.webapp.page_requests import play
from webapp.runs.models import Run
from webapp.trajectories.exports import run_downloads
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
    assert shell("clone", slug, "--set", "seed=4", "--group", "Seeds")[0] == 0
    assert list(Run.objects.values_list("group", flat=True).order_by("created_at")) == ["", "Seeds"]


def test_invalid_settings_are_reported_by_field_on_standard_error(shell: Any) -> None:
    status, out, err = shell("launch", "bandit-starpo_s-pocket", "--set", "iterations=0")
    assert (status, out) == (1, "")
    assert "  iterations: must be greater than 0" in err
    assert shell("launch", "bandit-starpo_s-pocket", "--set", "iterations")[0] == 1


def test_a_run_is_changed_and_rewound(shell: Any, run_on_site: Run) -> None:
    slug = run_on_site.slug
    Run.objects.update(imported=False, state="running", iteration=20)
    run_on_site.checkpoints.create(iteration=10, path="checkpoints/000010", bytes=1, time=timezone.now())
    rate = ("--set", "optimizer.policy_lr=5e-5")
    assert shell("change", slug, *rate)[1] == f"{slug}: optimizer.policy_lr = 5e-05 before the next iteration\n"
    status, out, _ = shell("change", slug, *rate, "--rewind-to", "10", "--why", "it collapsed")
    back = "back to the checkpoint of iteration 10, optimizer.policy_lr = 5e-05 before the next iteration"
    assert (status, out) == (0, f"{slug}: {back}\n")
    status, _, err = shell("change", slug, "--rewind-to", "7")
    assert (status, "No checkpoint of iteration 7 is kept (kept: 10)." in err) == (1, True)


def test_archived_runs_are_listed_or_left_out(shell: Any, run_on_site: Run) -> None:
    assert shell("runs", "--archived")[1] == ""
    assert run_on_site.slug in shell("runs", "--no-archived")[1]
    Run.objects.update(archived_at=timezone.now())
    assert run_on_site.slug in shell("runs", "--archived")[1]
    assert shell("runs", "--no-archived")[1] == ""


def test_a_run_is_launched_from_a_configuration_file(shell: Any, run_on_site: Run, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps(run_on_site.config | {"name": "From a file"}), encoding="utf-8")
    status, out, err = shell("launch", "--config", str(file))
    assert (status, err) == (0, "")
    assert Run.objects.get(slug=out.split()[0]).title == "From a file"


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("missing.json", None, "cannot be read: No such file or directory."),
        ("run.json", "iterations: 3", "is not JSON: Expecting value: line 1 column 1 (char 0)."),
        ("run.json", "[1]", "holds no configuration"),
        ("run.yaml", "iterations: 3", "is YAML, and --config takes JSON. Convert it"),
        ("run.yml", "iterations: 3", "is YAML, and --config takes JSON. Convert it"),
    ],
)
def test_a_file_without_a_readable_configuration_is_refused_with_a_reason(
    shell: Any, tmp_path: Path, name: str, text: str | None, problem: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    status, out, err = shell("launch", "--config", str(tmp_path / name))
    assert (status, out) == (1, "")
    assert err.startswith(f"error: {tmp_path / name} {problem}")
    assert not Run.objects.exists()


def test_the_advice_about_yaml_is_a_command_that_converts_it(tmp_path: Path) -> None:
    """A configuration as a site exports it."""
    (tmp_path / "FILE.yaml").write_text("name: Mine\nrollout:\n  groups: 4\n", encoding="utf-8")
    command = YAML_ADVICE.partition(": ")[2].partition(". To launch")[0].replace("python", sys.executable, 1)
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    assert load_config(tmp_path / "FILE.json") == {"name": "Mine", "rollout": {"groups": 4}}


def test_an_export_to_a_place_that_cannot_be_written_is_refused_with_a_reason(
    shell: Any, run_on_site: Run, tmp_path: Path
) -> None:
    place = tmp_path / "nowhere" / "all.jsonl"
    status, _, err = shell("export", run_on_site.slug, "--out", str(place))
    assert (status, err) == (1, f"error: {place} cannot be written: No such file or directory.\n")
    status, _, err = shell("export", run_on_site.slug, "config", "--out", str(tmp_path))
    assert (status, err) == (1, f"error: {tmp_path} cannot be written: Is a directory.\n")


def test_a_failed_export_leaves_no_file_behind(shell: Any, tmp_path: Path) -> None:
    status, _, err = shell("export", "missing", "--out", str(tmp_path / "all.jsonl"))
    assert (status, "missing" in err) == (1, True)
    assert list(tmp_path.iterdir()) == []


def test_trajectories_are_exported_in_one_request_and_in_parts_where_they_are_too_large(
    shell: Any, run_on_site: Run, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(run_on_site, 4)
    sent: list[tuple[str, Any]] = []
    stream = Transport.stream
    monkeypatch.setattr(Transport, "stream", lambda self, *request: sent.append(request) or stream(self, *request))
    out = tmp_path / "all.jsonl"
    assert shell("export", run_on_site.slug, "--out", str(out))[0] == 0
    whole = out.read_text().splitlines()
    assert (len(sent), len(whole)) == (1, Trajectory.objects.count())
    monkeypatch.setattr(run_downloads.export_run, "estimated_bytes", lambda trajectories: trajectories.count())
    monkeypatch.setattr(run_downloads, "MEGABYTE", 1)
    monkeypatch.setattr(run_downloads, "_limited", lambda chunks, name: chunks)
    settings.ECHOSCOPE_MAX_EXPORT_MB = Trajectory.objects.filter(iteration=1).count()
    assert shell("export", run_on_site.slug, "--out", str(out))[0] == 0
    assert len(sent) > 2
    assert sorted(out.read_text().splitlines()) == sorted(whole)
    settings.ECHOSCOPE_MAX_EXPORT_MB = 1
    status, _, err = shell("export", run_on_site.slug, "--out", str(out))
    assert (status, "Export it in parts" in err) == (1, True)


def test_an_address_without_a_scheme_is_refused_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--url", "localhost:8000", "--token", "es_x", "me"]) == 1
    assert "must begin with http:// or https://, as in http://localhost:8000" in capsys.readouterr().err


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
    assert {line["id"] for line in output} == set(Trajectory.objects.values_list("slug", flat=True))
    points = [json.loads(line) for line in shell("export", run_on_site.slug, "metrics")[1].splitlines()]
    stored = run_on_site.metrics.order_by("name", "iteration").values("name", "iteration", "value", "tokens", "seconds")
    assert points == list(stored)
    assert "iterations: 4" in shell("export", run_on_site.slug, "config")[1]
    address = shell("share", output[0]["id"])[1].strip()
    assert shell("revoke", address)[0] == 0
    assert ShareLink.objects.get().revoked_at is not None
