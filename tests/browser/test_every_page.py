"""Every page in a real browser: axe-core in both themes, width of a phone, screenshots.

Screenshots of all pages at three widths are written to `var/screenshots` or to ECHOSCOPE_SCREENSHOTS.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page
from pytest_django import Settings

from tests.browser.served import ORIGIN, serve
from tests.webapp.addresses import ADDRESSES, patterns
from tests.webapp.conftest import People, people, run
from tests.webapp.full_site_fixture import FullSite, create_full_site
from webapp.runs.models import Run
from webapp.settings import ROOT

__all__ = ["people", "run"]

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
PICTURES = Path(os.environ.get("ECHOSCOPE_SCREENSHOTS", ROOT / "var" / "screenshots"))
WIDTHS = {"phone": 390, "tablet": 820, "desktop": 1380}
PUBLIC = {"login", "account_reset_password", "invitation", "shared", "embed"}
"""Pages visited without an account."""
QUIET = 250  # milliseconds for scripts to draw

LOOK = """async () => (await axe.run(document, {resultTypes: ['violations']})).violations.map(
  (found) => `${found.id} (${found.impact}): ${found.help}: ${found.nodes.slice(0, 3).map((node) =>
    node.target.join(' ') + ' ' + (node.any[0]?.message ?? '')).join(' | ')}`)"""
WIDER = """() => [...document.querySelectorAll('body *')].filter((part) => {
  const box = part.getBoundingClientRect();
  if (box.right <= innerWidth + 1 || box.width === 0) return false;
  for (let around = part; around; around = around.parentElement) {
    const style = getComputedStyle(around);
    if (style.overflowX !== 'visible' || style.position === 'fixed') return false;
  }
  return true;
}).slice(0, 3).map((part) => part.tagName + '.' + part.className)"""


@pytest.fixture(scope="module", autouse=True)
def _tables_beside_the_browser() -> Iterator[None]:
    """Playwright's event loop runs in this thread, where Django refuses queries. Nothing is concurrent."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        yield


@pytest.fixture
def full_site(transactional_db: None, people: People, run: Run, tmp_path: Path, settings: Settings) -> FullSite:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    settings.ALLOWED_HOSTS = ["*"]
    return create_full_site(people, run)


def pages(full_site: FullSite) -> list[tuple[str, str]]:
    """(name, path) of every page."""
    return [
        (name, full_site.path(name, arguments, ADDRESSES[name].query))
        for name, arguments in patterns()
        if name in ADDRESSES and ADDRESSES[name].page
    ]


def visit(browser: Browser, full_site: FullSite, name: str, **options: Any) -> Iterator[tuple[Page, str]]:
    """All pages in turn, each opened by a visitor with access."""
    owner, anonymous = full_site.visitors()[0][1], full_site.visitors()[-1][1]
    context = browser.new_context(reduced_motion="reduce", **options)
    strangers = browser.new_context(reduced_motion="reduce", **options)
    serve(context, owner)
    serve(strangers, anonymous)
    tabs = {True: strangers.new_page(), False: context.new_page()}
    for page_name, path in pages(full_site):
        tab = tabs[page_name in PUBLIC]
        answer = tab.goto(ORIGIN + path)
        assert answer is not None
        assert answer.status == 200, f"{page_name}: {answer.status}"
        tab.wait_for_timeout(QUIET)
        yield tab, page_name
    context.close()
    strangers.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_has_accessibility_violations(
    full_site: FullSite, browser: Browser, theme: Literal["light", "dark"]
) -> None:
    assert AXE.exists(), "axe-core is not installed: make test installs it"
    source = AXE.read_text(encoding="utf-8")
    found = []
    for tab, name in visit(browser, full_site, theme, color_scheme=theme, viewport={"width": 1380, "height": 900}):
        tab.evaluate(source)
        found += [f"{name}: {barrier}" for barrier in tab.evaluate(LOOK)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_scrolls_horizontally(full_site: FullSite, browser: Browser, width: str) -> None:
    folder = PICTURES / width
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    viewport = {"width": WIDTHS[width], "height": 900}
    theme = "dark" if width == "tablet" else "light"
    for tab, name in visit(browser, full_site, width, color_scheme=theme, viewport=viewport):
        tab.screenshot(path=folder / f"{name}.png", full_page=True)
        wide = tab.evaluate("() => document.documentElement.scrollWidth")
        if wide > WIDTHS[width]:
            found.append(f"{name}: {wide} px wide, because of {tab.evaluate(WIDER)}")
    assert not found, "\n".join(found)
