"""Sharing in a real browser: shared position, phone, embedding in another page."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.running_product import LiveStack
from tests.webapp import recorded_journal
from trainer.config.run import RunConfig

pytestmark = pytest.mark.browser


@pytest.fixture
def run(live_stack: LiveStack, tmp_path: Path) -> str:
    """The path of a run with two iterations of Sokoban."""
    config = RunConfig(iterations=2)
    config.rollout.groups = config.rollout.group_size = 2
    output = live_stack.manage("import_journal", str(recorded_journal.write(tmp_path / "journal", config, 2)))
    match = re.search(r"/runs/\w+/", output)
    assert match is not None, output
    return match[0]


@pytest.fixture
def blog(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder served by another site, and its URL."""
    folder = tmp_path / "blog"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        """Keep the test's output free of requests."""


def test_a_position_is_shared_viewed_on_a_phone_embedded_and_revoked(
    run: str,
    signed_in: Callable[..., Page],
    new_context: Callable[..., BrowserContext],
    live_stack: LiveStack,
    blog: tuple[Path, str],
) -> None:
    page = signed_in()
    page.goto(f"{run}trajectories")
    page.locator('a[href^="/t/"]').first.click()
    expect(page.locator(".board svg")).to_be_visible()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    shown = page.locator("[data-position]").inner_text()

    # the form includes the position, and Copy copies the public URL, not the team's
    page.get_by_role("link", name="Share", exact=True).click()
    page.get_by_label("Expires").select_option("7")
    page.get_by_role("button", name="Create link").click()
    expect(page.get_by_text("Link created. Anyone with the link")).to_be_visible()
    expect(page.locator("[data-position]")).to_have_text(shown)
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.get_by_text("Share link copied")).to_be_visible()
    address = page.evaluate("navigator.clipboard.readText()")
    assert re.fullmatch(rf"{re.escape(live_stack.url.rstrip('/'))}/s/\w+", address)

    # on a phone, without an account
    phone = new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True).new_page()
    phone.goto(address)
    expect(phone.locator("[data-position]")).to_have_text(shown)
    assert phone.evaluate("document.documentElement.scrollWidth") == 390
    phone.get_by_role("button", name="Embed").click()
    phone.get_by_label("Start at the current position").check()
    code = phone.get_by_label("HTML to paste").input_value()
    assert re.search(r'src="[^"]+/embed/\w+\?turn=\d+', code)
    phone.get_by_role("button", name="Close").click()
    phone.keyboard.press("Home")
    expect(phone.locator("[data-position]")).not_to_have_text(shown)

    # the puzzle of the attempt, with the agent's way as far as one has played
    phone.get_by_role("link", name="Play this puzzle").click()
    expect(phone.locator("#play-board .piece.box").first).to_be_visible()
    expect(phone.locator(".rival-place")).to_have_count(0)
    phone.get_by_role("button", name="Left").click()
    expect(phone.locator(".score")).to_contain_text("1 of 10")
    expect(phone.locator(".rival-place")).to_have_count(1)
    assert phone.evaluate("document.documentElement.scrollWidth") == 390

    # embedded in another page, at the same position, with its own shortcuts
    folder, site = blog
    (folder / "post.html").write_text(f"<!doctype html><link rel=icon href=data:,><p>Look:</p>{code}")
    reader = page.context.browser.new_context().new_page()  # type: ignore[union-attr]
    reader.goto(f"{site}/post.html")
    frame = reader.frame_locator("iframe")
    expect(frame.locator("[data-position]")).to_have_text(shown)
    frame.get_by_role("button", name="Forward one action").click()
    expect(frame.locator("[data-position]")).not_to_have_text(shown)

    # two views; once revoked, it shows nothing anywhere
    page.reload()
    expect(page.get_by_text("2 views")).to_be_visible()
    page.get_by_text("Revoke …").click()
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("Revoked.")).to_be_visible()
    reader.reload()
    expect(frame.get_by_text("This player is no longer available")).to_be_visible()
    reader.context.close()
    assert phone.request.get(address).status == 404
    assert phone.request.get(f"{address}/play").status == 404
