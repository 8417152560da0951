"""Every page in a real browser: axe-core in both themes, layout shifts, weight, width of a phone, screenshots.

Each page is loaded twice, on a desktop and on a phone. At night it is examined in both themes, and screenshots are
written to `var/screenshots` or to ECHOSCOPE_SCREENSHOTS.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Response
from pytest_django import Settings

from tests.browser.served import ORIGIN, serve, tables_beside_the_browser
from tests.webapp.addresses import ADDRESSES, patterns
from tests.webapp.conftest import People, people, run
from tests.webapp.full_site_fixture import FullSite, create_full_site
from webapp.runs.models import Run
from webapp.settings import ROOT

__all__ = ["people", "run", "tables_beside_the_browser"]

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
PICTURES = Path(os.environ.get("ECHOSCOPE_SCREENSHOTS", ROOT / "var" / "screenshots"))
WIDTHS = {"phone": 390, "tablet": 820, "desktop": 1380}
PUBLIC = {"login", "account_reset_password", "invitation", "shared", "challenge", "embed"}
"""Pages visited without an account."""
QUIET = 250  # milliseconds for scripts to draw
MAX_SHIFT = 0.02
MAX_SHIFT_OF_RUNS = 0.02
"""On the tabs of a run, whose header receives live data."""
LIVE = "run"
"""The live tab is not measured: here its socket is silent, so that its stage fills late."""
MAX_RUN_PAGE_BYTES = 150_000
"""Compressed size of a run's page with everything it loads but the fonts, which browsers keep for a year."""
MAX_FONT_BYTES = 150_000
MAX_RUN_PAGE_REQUESTS = 26

LOOK = """async () => (await axe.run(document, {resultTypes: ['violations'], rules: {'target-size': {enabled: true}}}))
  .violations.map(
  (found) => `${found.id} (${found.impact}): ${found.help}: ${found.nodes.slice(0, 3).map((node) =>
    node.target.join(' ') + ' ' + (node.any[0]?.message ?? '')).join(' | ')}`)"""
SHIFTS = """() => {
  window.shifts = [];
  new PerformanceObserver((list) => {
    for (const shift of list.getEntries()) if (!shift.hadRecentInput) window.shifts.push({value: shift.value,
      what: shift.sources.map((source) => source.node?.className || source.node?.nodeName || '?').join(', ')});
  }).observe({type: 'layout-shift', buffered: true});
}"""
WIDER = """() => [...document.querySelectorAll('body *')].filter((part) => {
  const box = part.getBoundingClientRect();
  if (box.right <= innerWidth + 1 || box.width === 0) return false;
  for (let around = part; around; around = around.parentElement) {
    const style = getComputedStyle(around);
    if (style.overflowX !== 'visible' || style.position === 'fixed') return false;
  }
  return true;
}).slice(0, 3).map((part) => part.tagName + '.' + part.className)"""


@pytest.fixture
def full_site(transactional_db: None, people: People, run: Run, tmp_path: Path, settings: Settings) -> FullSite:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    settings.ALLOWED_HOSTS = ["*"]
    return create_full_site(people, run)


def pages(full_site: FullSite) -> list[tuple[str, str]]:
    """(name, path) of every page, of a comparison of two runs, of the admin, and of an address that does not exist."""
    other = full_site.run
    twin = Run.objects.create(
        team=other.team, author=other.author, title="Twin", config=other.config, environment=other.environment
    )
    return [
        *(
            (name, full_site.path(name, arguments, ADDRESSES[name].query))
            for name, arguments in patterns()
            if name in ADDRESSES and ADDRESSES[name].page
        ),
        ("compare-two", f"/compare?runs={other.slug},{twin.slug}"),
        ("not-found", "/nothing-here"),
    ]


def visit(browser: Browser, full_site: FullSite, **options: Any) -> Iterator[tuple[Page, str, list[Response]]]:
    """All pages in turn, each opened by a visitor with access, and the responses it took."""
    owner, anonymous = full_site.visitors()[0][1], full_site.visitors()[-1][1]
    context = browser.new_context(reduced_motion="reduce", **options)
    strangers = browser.new_context(reduced_motion="reduce", **options)
    serve(context, owner)
    serve(strangers, anonymous)
    tabs = {True: strangers.new_page(), False: context.new_page()}
    responses: list[Response] = []
    for tab in tabs.values():
        tab.add_init_script(f"({SHIFTS})()")
        tab.on("response", lambda answer: responses.append(answer))
    for page_name, path in pages(full_site):
        tab = tabs[page_name in PUBLIC]
        responses.clear()
        answer = tab.goto(ORIGIN + path)
        assert answer is not None
        assert answer.status == (404 if page_name == "not-found" else 200), f"{page_name}: {answer.status}"
        tab.wait_for_timeout(QUIET)
        yield tab, page_name, responses
    context.close()
    strangers.close()


def shifts(tab: Page, name: str) -> list[str]:
    """The page's layout shifts, if together they exceed the limit."""
    found = tab.evaluate("() => window.shifts")
    total = sum(shift["value"] for shift in found)
    limit = MAX_SHIFT_OF_RUNS if name.startswith("run-") else MAX_SHIFT
    if name == LIVE or total <= limit:
        return []
    return [f"{name}: layout shift {total:.3f}: {[shift['what'] for shift in found]}"]


EXTENT = pytest.mark.parametrize("nightly", [False, pytest.param(True, marks=pytest.mark.nightly)])


@EXTENT
def test_every_page_on_a_desktop(full_site: FullSite, browser: Browser, nightly: bool) -> None:
    assert AXE.exists(), "axe-core is not installed: make test installs it"
    source = AXE.read_text(encoding="utf-8")
    found, viewport = [], {"width": WIDTHS["desktop"], "height": 900}
    for tab, name, responses in visit(browser, full_site, color_scheme="light", viewport=viewport):
        found += shifts(tab, name)
        if name == "run":
            sizes = {answer.url: len(gzip.compress(answer.body())) for answer in responses if answer.ok}
            fonts = sum(size for address, size in sizes.items() if address.endswith(".woff2"))
            size = sum(sizes.values()) - fonts
            assert size < MAX_RUN_PAGE_BYTES, f"the page of a run takes {size:,} bytes"
            assert 0 < fonts < MAX_FONT_BYTES, f"the fonts of a run's page take {fonts:,} bytes"
            assert len(responses) <= MAX_RUN_PAGE_REQUESTS, [answer.url for answer in responses]
        tab.evaluate(source)
        for theme in ("light", "dark") if nightly else ("light",):
            tab.emulate_media(color_scheme=theme)
            found += [f"{name}, {theme}: {barrier}" for barrier in tab.evaluate(LOOK)]
        tab.emulate_media(color_scheme="light")
        found += too_wide(tab, name, "desktop", picture=nightly)
        if nightly:
            tab.emulate_media(color_scheme="dark")
            found += too_wide(tab, name, "tablet", picture=True)
            tab.emulate_media(color_scheme="light")
            tab.set_viewport_size({"width": WIDTHS["desktop"], "height": 900})
    assert not found, "\n".join(found)


@EXTENT
def test_every_page_on_a_phone(full_site: FullSite, browser: Browser, nightly: bool) -> None:
    found, viewport = [], {"width": WIDTHS["phone"], "height": 900}
    for tab, name, _ in visit(browser, full_site, color_scheme="light", viewport=viewport):
        found += shifts(tab, name) + too_wide(tab, name, "phone", picture=nightly)
    assert not found, "\n".join(found)


def too_wide(tab: Page, name: str, device: str, *, picture: bool) -> list[str]:
    """A message if the page scrolls horizontally at the width of the device. Takes a screenshot on request."""
    tab.set_viewport_size({"width": WIDTHS[device], "height": 900})
    if picture:
        (PICTURES / device).mkdir(parents=True, exist_ok=True)
        tab.screenshot(path=PICTURES / device / f"{name}.png", full_page=True)
    wide = tab.evaluate("() => document.documentElement.scrollWidth")
    if wide <= WIDTHS[device]:
        return []
    return [f"{name}: {wide} px wide on a {device}, because of {tab.evaluate(WIDER)}"]
