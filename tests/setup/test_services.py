"""Embedded servers: created once, recovered after a crash, never two on the same data."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psycopg
import pytest
import redis

from webapp.services.addresses import free_port
from webapp.services.child_process import spawn, stop, wait_ready
from webapp.services.postgres import Postgres, PostgresError
from webapp.services.redis import Redis


@pytest.mark.django_db
def test_the_test_database_is_the_embedded_postgresql(postgres_server: Postgres) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT current_database(), inet_server_port()")
        name, port = cursor.fetchone()
    assert name.startswith("test_")
    assert port == postgres_server.port


def test_redis_answers_only_with_the_password(redis_server: Redis) -> None:
    assert redis.Redis.from_url(redis_server.url()).ping()
    with pytest.raises(redis.AuthenticationError):
        redis.Redis(port=redis_server.port).ping()


def test_a_killed_postgresql_restarts_with_its_data(tmp_path: Path) -> None:
    server = Postgres(tmp_path / "postgres", free_port(), "secret", durable=False)
    assert server.initialise()
    program = server.program(tmp_path / "log")
    first = spawn(program)
    wait_ready(program, first, 60)
    server.create_database("kept")
    os.kill(first.pid, signal.SIGKILL)
    first.wait()

    second = spawn(program)
    try:
        wait_ready(program, second, 60)
        with psycopg.connect(server.url("kept")) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    finally:
        stop(program, second)


def test_a_leftover_server_on_the_same_data_is_stopped_first(tmp_path: Path) -> None:
    server = Postgres(tmp_path / "postgres", free_port(), "secret", durable=False)
    server.initialise()
    program = server.program(tmp_path / "log")
    left_over = spawn(program)
    wait_ready(program, left_over, 60)

    second = spawn(program)
    try:
        assert left_over.wait(1) == 0
        wait_ready(program, second, 60)
    finally:
        stop(program, second)


def test_data_of_another_postgresql_version_is_not_touched(tmp_path: Path) -> None:
    server = Postgres(tmp_path / "postgres", free_port(), "secret", durable=False)
    server.data.mkdir(parents=True)
    (server.data / "PG_VERSION").write_text("16\n")
    with pytest.raises(PostgresError, match=r"written by PostgreSQL 16.*Nothing was changed"):
        server.initialise()
    assert [path.name for path in server.data.iterdir()] == ["PG_VERSION"]
