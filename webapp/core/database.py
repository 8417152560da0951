"""Queries from coroutines, the database's clock, and errors of a database that is unavailable or locked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

from channels.db import database_sync_to_async
from django.db import Error, InterfaceError, OperationalError, close_old_connections, connection, transaction
from django.db.models import QuerySet
from django.db.models.expressions import Combinable
from psycopg.errors import IdleInTransactionSessionTimeout, LockNotAvailable, QueryCanceled

DATABASE_UNAVAILABLE = (OperationalError, InterfaceError)
DELETED_AT_ONCE = 500

Result = TypeVar("Result")
Moment = datetime | Combinable
"""A time, or the expression by which the database computes one."""


async def query(
    function: Callable[..., Result], *arguments: object, executor: ThreadPoolExecutor | None = None
) -> Result:
    """Return the result of a function that queries, run in the thread of synchronous code or in `executor`."""
    call = database_sync_to_async(function, thread_sensitive=executor is None, executor=executor)
    result: Result = await call(*arguments)
    return result


@contextmanager
def connection_of_this_block() -> Iterator[None]:
    """Let a thread query with a connection that Django's signals do not close: replaced if lost, closed at the end."""
    if connection.in_atomic_block:
        yield
        return
    close_old_connections()
    try:
        yield
    finally:
        connection.close()


def database_now() -> datetime:
    """Return the database's time, which all machines share: leases and signs of life are compared by it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now


def clock_offset() -> float:
    """Return the seconds by which this machine's clock is ahead of the database's, to half of the query's time."""
    began, local_time = time.monotonic(), datetime.now(UTC)
    now = database_now()
    return (local_time - now).total_seconds() + (time.monotonic() - began) / 2


def is_unavailable(error: Error) -> bool:
    """Return True if the database ended the connection or cannot be reached, so that the work can be repeated."""
    return isinstance(error, DATABASE_UNAVAILABLE) or isinstance(error.__cause__, IdleInTransactionSessionTimeout)


class RowLocked(Exception):
    """Another process has locked the row, or the table, for longer than `lock_wait` allows."""


class StatementTooSlow(Exception):
    """A statement took longer than `statement_limit` allows."""


def lift_statement_timeout() -> None:
    """Let the statements of this transaction take as long as they need, whatever the process's limit is."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 0")


def delete_in_chunks(rows: QuerySet[Any]) -> None:
    """Delete the rows with their dependent rows, some at a time, because Django keeps these in memory."""
    numbers = list(rows.order_by().values_list("pk", flat=True))
    for first in range(0, len(numbers), DELETED_AT_ONCE):
        rows.model._base_manager.filter(pk__in=numbers[first : first + DELETED_AT_ONCE]).delete()


@contextmanager
def statement_limit(seconds: float) -> Iterator[None]:
    """Limit the time of each statement in a transaction, or in a part of one. Raises StatementTooSlow."""
    set_limit = "SELECT current_setting('statement_timeout'), set_config('statement_timeout', %s, true)"
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute(set_limit, [f"{round(seconds * 1000)}ms"])
                previous_limit = cursor.fetchone()[0]
            yield
            with connection.cursor() as cursor:
                cursor.execute(set_limit, [previous_limit])  # the transaction around this one may go on
    except OperationalError as error:
        if isinstance(error.__cause__, QueryCanceled):
            raise StatementTooSlow from error
        raise


@contextmanager
def lock_wait(seconds: float) -> Iterator[None]:
    """Limit the time that a transaction waits for any one lock. Raises RowLocked."""
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{round(seconds * 1000)}ms"])
            yield
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            raise RowLocked from error
        raise
