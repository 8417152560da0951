"""Logs: no secret of an address, one line for a refused request, and a limit of size."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings
from pythonjsonlogger.json import JsonFormatter

from tests.patience import SECONDS
from tests.webapp.addresses import patterns
from webapp.operations.logs import FILTERS, SECRET_PARAMETERS, ShortRefusals, configuration, secret_prefixes
from webapp.services import child_process
from webapp.services.addresses import ROOT

SECRET = "a_very_secret_token"
SECRET_ADDRESSES = [
    (f"/s/{SECRET}", "/s/<slug:token>"),
    (f"/s/{SECRET}/picture.png", "/s/<slug:token>/picture.png"),
    (f"/s/{SECRET}/", "/s/<slug:token>"),
    (f"/embed/{SECRET}", "/embed/<slug:token>"),
    (f"/invitations/{SECRET}", "/invitations/<slug:token>"),
    (f"/welcome/1/{SECRET}", "/welcome/<int:user_id>/<str:token>"),
    (f"/account/password/new/a-{SECRET}", "/account/password/new/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)$"),
    (f"/account/email/confirm/{SECRET}", "/account/email/confirm/(?P<key>[-:\\w]+)$"),
]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("path", "pattern", "secure"),
    [*((*address, True) for address in SECRET_ADDRESSES), (*SECRET_ADDRESSES[0], False)],  # is sent on to https
)
def test_logs_show_the_pattern_of_an_address_with_a_secret(
    path: str, pattern: str, secure: bool, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.SECURE_SSL_REDIRECT = True
    formatter = JsonFormatter("{message}", style="{")
    with caplog.at_level("INFO", logger="echoscope.requests"):
        Client(raise_request_exception=False).get(path, secure=secure)
    assert caplog.records
    for record in caplog.records:
        for name in FILTERS:
            configuration("json", "INFO")["filters"][name]["()"]().filter(record)
        assert SECRET not in formatter.format(record)
    assert any(getattr(record, "path", "") == pattern for record in caplog.records)


MISTYPED = [
    *((f"/s/{SECRET}{end}", "/s/…") for end in (".", ",", "/x", "/picture.png.")),
    (f"/embed/{SECRET}.", "/embed/…"),
    (f"/invitations/{SECRET},", "/invitations/…"),
    (f"/welcome/1/{SECRET}/x", "/welcome/…"),
    (f"/welcome/one/{SECRET}", "/welcome/…"),
    (f"/account/password/new/{SECRET}.", "/account/password/new/…"),
    (f"/account/email/confirm/{SECRET}.", "/account/email/confirm/…"),
    *((f"{place}abc/{SECRET}.", f"{place}…") for place in ("/runs/", "/t/", "/team/", "/alerts/addresses/")),
    (f"/api/shares/{SECRET}/x", "/api/shares/…"),
]


@pytest.mark.django_db
@pytest.mark.parametrize(("path", "shown"), MISTYPED)
def test_logs_show_no_secret_of_a_mistyped_address(path: str, shown: str, caplog: pytest.LogCaptureFixture) -> None:
    formatter = JsonFormatter("{message}", style="{")
    with caplog.at_level("INFO", logger="echoscope.requests"):
        Client().get(path)
    for record in caplog.records:
        for name in FILTERS:
            configuration("json", "INFO")["filters"][name]["()"]().filter(record)
        assert SECRET not in formatter.format(record)
    assert any(getattr(record, "path", "") == shown for record in caplog.records)


def test_mistyped_addresses_of_all_routes_with_a_secret_are_tested() -> None:
    assert secret_prefixes() == {shown.removesuffix("…") for _, shown in MISTYPED}


@pytest.mark.django_db
def test_logs_show_other_paths_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="echoscope.requests"):
        Client().get("/login")
        Client().get("/nowhere/at/all")
    assert {record.path for record in caplog.records if hasattr(record, "path")} == {"/login", "/nowhere/at/all"}


def test_every_secret_in_an_address_has_a_name_that_logs_know() -> None:
    named = {name for _, names in patterns() for name in names}
    assert named & SECRET_PARAMETERS == SECRET_PARAMETERS
    assert not {name for name in named if "secret" in name or "code" in name}


@pytest.mark.parametrize(("status", "traceback"), [(403, False), (404, False), (500, True), (None, True)])
def test_only_errors_of_the_server_have_a_traceback(status: int | None, traceback: bool) -> None:
    record = logging.LogRecord(
        "django.request", logging.WARNING, "", 0, "Forbidden", (), (ValueError, ValueError(), None)
    )
    if status is not None:
        record.status_code = status
    assert ShortRefusals().filter(record)
    assert (record.exc_info is not None) is traceback


def test_a_log_is_emptied_while_its_program_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "LOG_BYTES", 10)
    log = tmp_path / "web.log"
    child_process.rotate(log)  # not there yet
    with log.open("ab", buffering=0) as writer:
        writer.write(b"0123456789")
        child_process.rotate(log)
        assert log.read_bytes() == b"0123456789"
        writer.write(b"a")
        child_process.rotate(log)
        writer.write(b"b")
    assert log.read_bytes() == b"b"
    assert log.with_suffix(".log.1").read_bytes() == b"0123456789a"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real disk of 1 MB, if mounting is permitted."""
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("only root may mount a small disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_log_on_a_full_disk_is_emptied_without_a_copy(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "LOG_BYTES", 10)
    log, old = small_disk / "web.log", small_disk / "web.log.1"
    log.write_bytes(bytes(600_000))
    old.write_bytes(b"earlier")
    child_process.rotate(log)
    assert log.read_bytes() == b""
    assert not old.exists()


SUPERVISOR = """
import sys
from pathlib import Path
from webapp.services import child_process, process_supervisor

child_process.LOG_BYTES = 10
log = Path(sys.argv[1])
group = process_supervisor.ProcessSupervisor(print)
group.start(child_process.Program("Sleeper", ["sleep", "600"], log, ready=lambda: True))
log.write_bytes(bytes(11))
ticks = []

def monitor(pids):
    ticks.append(pids)
    group.stopping = len(ticks) == 3

group.watch(monitor)
group.stop()
print(len(ticks), "ticks")
"""


def test_a_log_that_cannot_be_rotated_is_reported_once_and_ends_nothing(tmp_path: Path) -> None:
    log = tmp_path / "sleeper.log"
    (tmp_path / "sleeper.log.1").mkdir()
    argv = [sys.executable, "-c", SUPERVISOR, str(log)]  # apart: a supervisor adopts what its process started
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
    line, ticks = done.stdout.splitlines()
    assert line.startswith("The log of Sleeper cannot be rotated: ")
    assert ticks == "3 ticks"
