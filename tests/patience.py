"""Timeout of all waits in tests, generous for a busy machine.

A wait ends as soon as its condition holds, so a long timeout costs nothing when a test passes. Set
ECHOSCOPE_TEST_PATIENCE=10 to see a failure sooner.
"""

import asyncio
import os
import time
from collections.abc import Callable

SECONDS = float(os.environ.get("ECHOSCOPE_TEST_PATIENCE", "300"))
MILLISECONDS = int(SECONDS * 1000)  # as Playwright counts


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds."""
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.01)


def wait_until(condition: Callable[[], object], seconds: float = SECONDS) -> None:
    """Wait until the condition holds, in a thread without an event loop. Fails the test after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"the condition was not met within {seconds:g} seconds"
        time.sleep(0.02)
