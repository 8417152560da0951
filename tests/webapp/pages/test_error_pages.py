"""Error pages keep no connection, and their status after PostgreSQL has ended all connections."""

from __future__ import annotations

import asyncio
import http.client
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings as django_settings
from django.db import OperationalError, connection
from django.test import AsyncClient, Client

from tests.patience import SECONDS
from tests.webapp.conftest import People
from webapp.notifications import inbox
from webapp.services import programs
from webapp.services.addresses import free_port
from webapp.services.child_process import Program, spawn, stop, wait_ready

AT_ONCE = 12
MISSING = {"/reports/none": 404, "/reports/new": 403, "/?" + "a&" * 1_001: 400}
"""Addresses, and what a read-only member gets. Error pages show the team and the inbox, which are queries."""


@pytest.fixture
def port(transactional_db: None, tmp_path: Path) -> Iterator[int]:
    number = free_port()
    program: Program = programs.web("127.0.0.1", number, {}, tmp_path)
    process = spawn(program)
    try:
        wait_ready(program, process, SECONDS)
        yield number
    finally:
        stop(program, process)


OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid != pg_backend_pid()"


def _other_connections() -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) {OTHERS}")
        return int(cursor.fetchone()[0])


def _end_other_connections() -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(pg_terminate_backend(pid)) {OTHERS}")
        return int(cursor.fetchone()[0])


def _statuses(port: int, session: str, addresses: list[str]) -> list[int]:
    """Statuses of requests that are sent at once."""
    cookie = f"{django_settings.SESSION_COOKIE_NAME}={session}"

    def get(address: str) -> int:
        web = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        try:
            web.request("GET", address, headers={"Host": "localhost", "Cookie": cookie})
            return web.getresponse().status
        finally:
            web.close()

    with ThreadPoolExecutor(AT_ONCE) as threads:
        return list(threads.map(get, addresses))


def test_error_pages_outlive_a_restart_of_the_database(people: People, port: int) -> None:
    client = Client()
    client.force_login(people.viewer)
    session = client.cookies[django_settings.SESSION_COOKIE_NAME].value
    addresses = list(MISSING) * AT_ONCE
    expected = list(MISSING.values()) * AT_ONCE
    assert _statuses(port, session, addresses) == expected
    for _ in range(2):
        assert _end_other_connections() > 0
        assert _statuses(port, session, addresses) == expected
        assert _statuses(port, session, addresses) == expected


def test_the_threads_of_error_pages_keep_no_connection(transactional_db: None, people: People) -> None:
    client = AsyncClient()
    client.force_login(people.viewer)

    async def get() -> list[int]:
        return [response.status_code for response in await asyncio.gather(*map(client.get, list(MISSING) * AT_ONCE))]

    _end_other_connections()
    assert async_to_sync(get)() == list(MISSING.values()) * AT_ONCE
    assert _other_connections() == 0


def test_an_error_page_that_fails_keeps_its_status_and_logs_the_cause(
    people: People, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def lost(user: object) -> int:
        raise OperationalError("the connection is lost")

    monkeypatch.setattr(inbox, "unread_count", lost)
    client = Client(raise_request_exception=False)
    client.force_login(people.viewer)
    monkeypatch.setattr(logging.getLogger("echoscope"), "propagate", True)
    with caplog.at_level(logging.ERROR, logger="echoscope.requests"):
        response = client.get("/reports/none")
    assert response.status_code == 404
    assert response.content.startswith(b"Not Found")
    assert any(record.exc_info and "the connection is lost" in str(record.exc_info[1]) for record in caplog.records)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("address", "target"),
    [
        ("/runs", "/"),
        ("/runs/", "/"),
        ("/studies/", "/studies"),
        ("/studies).", "/studies"),
        ("/compare/?runs=a,b", "/compare?runs=a,b"),
        ("/runs/abc", "/runs/abc/"),
        ("/runs/abc/curves/", "/runs/abc/curves"),
        ("/t/abc/**", "/t/abc"),
        ("/no/such/page/.", None),
        ("/t/abc/?turn=2", "/t/abc?turn=2"),
        ("/no/such/page/", None),
        ("/t/none", None),
    ],
)
def test_an_address_that_is_nearly_right_leads_to_its_page(people: People, address: str, target: str | None) -> None:
    client = Client()
    client.force_login(people.owner)
    answer = client.get(address)
    assert (answer.status_code, answer.get("Location")) == ((302, target) if target else (404, None))


@pytest.mark.django_db
def test_nothing_is_posted_to_an_address_that_is_nearly_right(people: People) -> None:
    client = Client()
    client.force_login(people.owner)
    assert client.post("/t/abc/**").status_code == 404


@pytest.mark.django_db
def test_a_form_that_is_too_old_keeps_what_was_typed(people: People) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(people.owner)
    answer = client.post("/runs/new", {"notes": "Does the lake freeze over?", "password": "correct horse battery"})
    page = answer.content.decode()
    assert (answer.status_code, "This form is too old" in page) == (403, True)
    assert "Does the lake freeze over?" in page
    assert "correct horse" not in page
