"""One headless Chromium for all page tests of a process.

A fixture of the whole tree (`conftest.py`), since Playwright's own loop can run only once in a process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from tests.patience import MILLISECONDS
from tests.suite.browser import find

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]

expect.set_options(timeout=MILLISECONDS)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = find()
    if path is None:
        pytest.skip("There is no Chromium here: `make test` installs one, CHROMIUM names one.")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=ARGUMENTS, timeout=MILLISECONDS)
        _use_test_timeouts(started)
        yield started
        started.close()


def _use_test_timeouts(browser: Browser) -> None:
    """Its timeouts are those of all other tests."""
    make = browser.new_context

    def with_timeout(**options: Any) -> BrowserContext:
        context = make(**options)
        context.set_default_timeout(MILLISECONDS)
        return context

    browser.new_context = with_timeout  # type: ignore[method-assign]
