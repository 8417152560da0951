"""Page of tokens in a real browser: colours, search, keyboard, permalinks, and no layout wider than a phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import call_command
from playwright.sync_api import Browser, Page, expect

from tests.browser.served import open_known, tables_beside_the_browser
from tests.webapp.conftest import People, people
from tests.webapp.faulty_tokens import FAULTS, record
from tests.webapp.page_requests import Visitors, who
from webapp.trajectories.models import Trajectory

__all__ = ["people", "tables_beside_the_browser", "who"]


@pytest.fixture
def page(people: People, who: Visitors, browser: Browser, tmp_path: Path) -> Iterator[Page]:
    made, difference = FAULTS["shifted mask"]
    record(tmp_path / "run", "shifted mask", made, difference=difference)
    call_command("import_journal", str(tmp_path / "run"), "--team", people.team.slug, "--user", "ada")
    slug = Trajectory.objects.get(run__title="shifted mask").slug
    known = {path: who.owner.get(path) for path in (f"/t/{slug}/tokens", f"/t/{slug}/reading.json")}
    faults: list[str] = []
    context = browser.new_context(viewport={"width": 1100, "height": 900})
    page = open_known(context, known, faults)
    expect(page.locator("[data-token-readout]")).to_contain_text("Point at a token")
    yield page
    context.close()
    assert not faults


def test_the_planted_fault_is_found_from_the_sentence_to_the_token(page: Page) -> None:
    page.get_by_role("link", name=re.compile("The loss mask is shifted")).click()
    token = page.locator("#token-6")
    expect(token).to_be_focused()
    readout = page.locator("[data-token-readout]")
    expect(readout).to_contain_text("“<assistant>” · id 6 · prompt · in the loss")
    page.keyboard.press("ArrowRight")
    expect(readout).to_contain_text("sampled · in the loss · probability 60.7% · log-probability −0.5 nats")
    assert page.url.endswith("/tokens?colour=loss#token-7")
    page.keyboard.press("ArrowDown")
    expect(readout).to_contain_text("“<s>”")
    expect(page.get_by_label("Colour by")).to_have_value("loss")
    expect(page.locator("#token-6")).to_have_attribute("data-level", "3")
    expect(page.locator("#token-12")).to_have_attribute("data-level", "0")
    shaded = page.locator("#token-6").evaluate("node => getComputedStyle(node).backgroundColor")
    plain = page.locator("#token-12").evaluate("node => getComputedStyle(node).backgroundColor")
    assert shaded != plain
    expect(page.get_by_label("Colour by").locator("option[value=entropy]")).to_be_disabled()


def test_tokens_are_found_by_text_and_by_ids(page: Page) -> None:
    query = page.get_by_label("Text or ids")
    query.fill("VOWELS first")
    found = page.locator("[data-token-found]")
    expect(found).to_have_text("2 matches")
    expect(page.locator(".token.found")).to_have_count(4)
    query.press("Enter")
    expect(found).to_have_text("1 of 2")
    expect(query).to_be_focused()
    page.get_by_label("Find by").select_option("ids")
    query.fill("0, 1, 2")
    expect(found).to_have_text("2 matches")
    query.fill("99")
    expect(found).to_have_text("0 matches")


def test_it_fits_a_phone(page: Page) -> None:
    page.set_viewport_size({"width": 320, "height": 640})
    expect(page.locator(".token").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
