"""Histories and answers that the soak test watches: each check finds what it is for, and nothing in a sound product."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import psycopg
import pytest

from bench.soak import histories, self_check
from tests.local_http import serving
from tests.patience import SECONDS

TRAINER = [sys.executable, "-m", "trainer", "train", "--config", "c", "--out", "/data/runs/{}", "--resume"]


def trainer(slug: str) -> list[str]:
    return [word.format(slug) for word in TRAINER]


def test_two_trainers_of_a_run_are_found_and_others_are_not() -> None:
    lines = [trainer("a"), trainer("b"), ["celery", "worker"], ["sh", "-c", " ".join(trainer("a"))], [""]]
    assert histories.trainer_faults(lines) == []
    assert histories.trainer_faults([*lines, trainer("b")]) == ["run b has 2 trainers at a time"]
    assert any("pytest" in " ".join(words) for words in histories.command_lines())


class Database:
    """A connection that answers every statement with the same row."""

    def __init__(self, row: tuple[int, int] | None) -> None:
        self.row = row

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def execute(self, statement: str, parameters: object) -> Database:
        return self

    def fetchone(self) -> tuple[int, int] | None:
        return self.row


@contextmanager
def watching(connect: Callable[[], Any]) -> Iterator[histories.CommitWatch]:
    watch = histories.CommitWatch(connect)
    try:
        yield watch
    finally:
        watch.stop()


def until_compared(watch: histories.CommitWatch, slug: str, rebuilds: int, seq: int) -> None:
    before, deadline = watch.compared, time.monotonic() + SECONDS
    watch.received(slug, rebuilds, seq)
    while watch.compared == before:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_event_before_its_commit_is_found() -> None:
    database = Database((5, 0))
    with watching(lambda: database) as watch:
        until_compared(watch, "a", 0, 5)
        database.row = 3, 1
        until_compared(watch, "a", 0, 5)  # the run was rebuilt from a shorter journal meanwhile
        assert watch.faults == []
        database.row = 4, 0
        until_compared(watch, "a", 0, 5)
        database.row = None
        until_compared(watch, "a", 0, 5)
        time.sleep(0.1)
    assert watch.faults == [
        "run a: a client received event 5 while the database had committed (4, 0)",
        "run a: a client received event 5 while the database had committed None",
    ]


def test_a_database_that_is_away_is_asked_again() -> None:
    answers = iter([psycopg.OperationalError("away"), Database((9, 0))])
    asked = threading.Event()

    def connect() -> Any:
        answer = next(answers)
        asked.set()
        if isinstance(answer, Exception):
            raise answer
        return answer

    with watching(connect) as watch:
        assert asked.wait(SECONDS)
        until_compared(watch, "a", 0, 9)
        assert watch.faults == []


class Site(BaseHTTPRequestHandler):
    """A site that answers as it should, but for one path."""

    broken = ""
    answers = 200, b"zzz"

    def do_GET(self) -> None:
        status, body = self.right()
        if self.path == self.broken:
            status, body = self.answers
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def right(self) -> tuple[int, bytes]:
        if self.path == "/account":
            return 302, b""
        if self.path == "/no/such/page" or self_check.MISSING in self.path:
            return 404, b"missing"
        if self.path.startswith("/api/") and not self.headers["Authorization"]:
            return 401, b""
        return 200, b'{"slug": "aaa"}'

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.parametrize(
    ("broken", "answers", "fault"),
    [
        ("", (200, b""), ""),
        ("/no/such/page", (500, b""), "/no/such/page answers 500 instead of 404"),
        ("/api/runs/aaa", (200, b"{}"), "/api/runs/aaa lacks '\"aaa\"'"),
        ("/runs/aaa/", (503, b""), "/runs/aaa/ answers 503 instead of 200"),
    ],
)
def test_the_first_wrong_answer_is_named(
    broken: str, answers: tuple[int, bytes], fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Site, "broken", broken)
    monkeypatch.setattr(Site, "answers", answers)
    with serving(Site) as port:
        assert self_check.first_fault(f"http://127.0.0.1:{port}", "aaa", "session=1", "token") == fault


def test_a_server_that_does_not_answer_is_a_fault() -> None:
    with serving(Site) as port:
        pass
    assert "has no answer (ConnectError)" in self_check.first_fault(f"http://127.0.0.1:{port}", "aaa", "", "")
