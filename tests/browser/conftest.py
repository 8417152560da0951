"""Browser fixtures for the running product. A console error or an external request of any page fails the test."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect

from tests.browser.launching import launch
from tests.running_product import LiveStack
from trainer.paths import POCKET_CHECKPOINT

CUT = ("htmx:sendError", "htmx:afterRequest")
"""htmx's console message for a failed request. The browser reports it as well, and whether a test caused it."""


CANCEL_RUNS = """
from contextlib import suppress
from webapp.runs.actions import RequestRefused, do_request
from webapp.runs.models import Run
for run in Run.objects.exclude(state__in=Run.ENDED):
    with suppress(RequestRefused):  # it was sent here, or has ended meanwhile
        do_request(run, Run.Request.CANCEL)
"""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Cancel the runs that a failed test leaves: the tests behind it would wait for the worker."""
    report = yield
    stack = item.funcargs.get("live_stack")
    if report.failed and isinstance(stack, LiveStack):
        try:
            stack.manage("shell", input=CANCEL_RUNS)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            report.sections.append(("Its runs were not cancelled", str(error)))
    return report


@dataclass
class Watch:
    """Errors of the watched pages."""

    host: str
    faults: list[str] = field(default_factory=list)

    def attach(self, page: Page) -> None:
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.faults.append(f"error on {page.url}: {error}"))
        page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        cut_on_purpose = "ERR_INTERNET_DISCONNECTED" in message.text or message.text.startswith(CUT)
        left = message.text.startswith("htmx:sendAbort")  # the page was left while it fetched a part of itself
        if message.type == "error" and not cut_on_purpose and not left:
            self.faults.append(f"console: {message.text}")

    def _request(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme in {"http", "https", "ws", "wss"} and address.netloc != self.host:
            self.faults.append(f"a request to {request.url}")


def sign_in(page: Page, stack: LiveStack) -> None:
    """Log in with name and password."""
    page.goto("/login")
    page.get_by_label("Name").fill(stack.username)
    page.get_by_label("Password").fill(stack.password)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="Runs", exact=True).wait_for()


@pytest.fixture
def new_context(browser: Browser, live_stack: LiveStack) -> Iterator[Callable[..., BrowserContext]]:
    """A separate browser context without cookies. Its pages are watched until the end of the test."""
    watch = Watch(urlsplit(live_stack.url).netloc)
    contexts = []

    def make(**options: object) -> BrowserContext:
        context = browser.new_context(base_url=live_stack.url, **options)  # type: ignore[arg-type]
        context.grant_permissions(["clipboard-read", "clipboard-write"], origin=live_stack.url.rstrip("/"))
        context.on("page", watch.attach)
        contexts.append(context)
        return context

    yield make
    for context in contexts:
        context.close()
    assert not watch.faults, "\n".join(watch.faults)


@pytest.fixture
def signed_in(new_context: Callable[..., BrowserContext], live_stack: LiveStack) -> Callable[..., Page]:
    """A page of a user logged in by name and password."""

    def make(**options: object) -> Page:
        page = new_context(**options).new_page()
        sign_in(page, live_stack)
        return page

    return make


@pytest.fixture(scope="session")
def played(browser: Browser, live_stack: LiveStack) -> str:
    """The path of a run that has finished, launched once for all tests that only look at it."""
    page = browser.new_context(base_url=live_stack.url).new_page()
    sign_in(page, live_stack)
    path = urlsplit(launch(page, **{"policy.model": str(POCKET_CHECKPOINT)})).path
    try:
        expect(page.locator(".state").first).to_have_attribute("data-state", "finished")
    except AssertionError as error:
        error.add_note(live_stack.logs())
        raise
    page.context.close()
    return path
