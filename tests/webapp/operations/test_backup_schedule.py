"""When the nightly backup runs, and who is alerted if a night has no backup."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core import mail
from django.test import Client
from pytest_django import Settings

from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, who
from webapp.operations import backup_schedule
from webapp.operations.backup_schedule import problem, read_state, run_if_due
from webapp.teams.models import User

__all__ = ["who"]

NIGHT = datetime(2026, 11, 10, 2, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Command:
    """The command: how often it ran, and how it ends."""

    def __init__(self) -> None:
        self.runs, self.error = 0, ""

    def __call__(self, argv: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        assert argv[-1] == "nightly_backup"
        self.runs += 1
        return subprocess.CompletedProcess(argv, 1 if self.error else 0, "", f"CommandError: {self.error}\n")


@pytest.fixture
def command(people: People, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    settings.ECHOSCOPE_BACKUP_DIR, settings.ECHOSCOPE_DATA_DIR = str(tmp_path / "backups"), tmp_path
    settings.ECHOSCOPE_MAIL = True
    User.objects.filter(pk=people.owner.pk).update(is_staff=True, email="ada@example.org")
    command = Command()
    monkeypatch.setattr(subprocess, "run", command)
    monkeypatch.setattr(backup_schedule.timezone, "now", lambda: NIGHT)
    return command


def test_without_a_folder_nothing_runs_and_nobody_is_told(command: Command, settings: Settings, tmp_path: Path) -> None:
    settings.ECHOSCOPE_BACKUP_DIR = ""
    run_if_due(NIGHT)
    assert (command.runs, problem(NIGHT), mail.outbox) == (0, "", [])
    assert list(tmp_path.iterdir()) == []


def test_it_runs_once_a_night(command: Command) -> None:
    for minutes in (0, 10, 600, 23 * 60):
        run_if_due(NIGHT + timedelta(minutes=minutes))
    assert command.runs == 1
    run_if_due(NIGHT + timedelta(days=1))
    assert command.runs == 2
    assert mail.outbox == []


def test_a_site_that_was_off_at_night_catches_up(command: Command) -> None:
    run_if_due(NIGHT)
    run_if_due(NIGHT + timedelta(days=1, hours=9))
    assert command.runs == 2


def test_a_failure_is_repeated_each_hour_and_mailed_once_a_day(command: Command) -> None:
    command.error = "/backups has no space left."
    for minutes in range(0, 180, 10):
        run_if_due(NIGHT + timedelta(minutes=minutes))
    assert command.runs == 3
    (sent,) = mail.outbox
    assert sent.to == ["ada@example.org"]
    assert "The nightly backup failed: /backups has no space left. There is no good backup yet." in sent.body
    run_if_due(NIGHT + 25 * HOUR)
    assert len(mail.outbox) == 2
    command.error = ""
    run_if_due(NIGHT + 27 * HOUR)
    assert problem(NIGHT + 27 * HOUR) == ""


def test_a_night_that_was_left_out_is_a_problem(command: Command) -> None:
    run_if_due(NIGHT)
    assert problem(NIGHT + 35 * HOUR) == ""
    text = problem(NIGHT + 37 * HOUR)
    assert text == "The nightly backup did not run. The last good backup is of 2026-11-10 02:05 UTC."


def test_a_command_that_hangs_is_a_failure(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(argv: list[str], *, timeout: float, **options: Any) -> None:
        raise subprocess.TimeoutExpired(argv, timeout)

    monkeypatch.setattr(subprocess, "run", hang)
    run_if_due(NIGHT)
    assert "It took longer than 6 hours." in problem(NIGHT)


def test_a_damaged_state_is_written_anew(command: Command, tmp_path: Path) -> None:
    for text in ("", "[]", '{"since": 1, "more": 2}', '{"since": "yesterday"}'):
        (tmp_path / backup_schedule.FILE).write_text(text)
        assert read_state(NIGHT).since == NIGHT.isoformat()
        run_if_due(NIGHT)
    assert read_state(NIGHT).good_at == NIGHT.isoformat()


def test_staff_see_it_on_their_pages_and_others_do_not(command: Command, who: Visitors) -> None:
    command.error = "no space"
    run_if_due(NIGHT)
    assert "The nightly backup failed: no space" in who.owner.get("/status-line").content.decode()
    assert who.viewer.get("/status-line").status_code == 204


def test_the_health_check_tells_of_it_without_being_unready(command: Command) -> None:
    command.error = "no space"
    run_if_due(NIGHT)
    answer = Client().get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["checks"]["backup"] == {"ok": False}
