"""Queries from coroutines, and the errors of an unavailable database."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from channels.db import database_sync_to_async
from django.db import InterfaceError, OperationalError

DATABASE_UNAVAILABLE = (OperationalError, InterfaceError)

Result = TypeVar("Result")


async def query(
    function: Callable[..., Result], *arguments: object, executor: ThreadPoolExecutor | None = None
) -> Result:
    """The result of a synchronous function that queries: run in the thread of synchronous code, or in `executor`."""
    call = database_sync_to_async(function, thread_sensitive=executor is None, executor=executor)
    result: Result = await call(*arguments)
    return result
