"""Sizes of the board and of what stands around it at 390, 1440 and 1920 pixels; the player on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client
from playwright.sync_api import Browser, Page, expect
from pytest_django import Settings

from tests.browser.served import ORIGIN, serve, tables_beside_the_browser
from tests.webapp.conftest import People, people, run
from tests.webapp.page_requests import play
from webapp.runs.models import Run
from webapp.trajectories.actions import do_share_trajectory
from webapp.trajectories.models import Trajectory

__all__ = ["people", "run", "tables_beside_the_browser"]

PHONE = {"width": 390, "height": 844}
SIZES = {"laptop": {"width": 1440, "height": 900}, "wide": {"width": 1920, "height": 1080}}
SHIFTS = """new PerformanceObserver((list) => {
  for (const { hadRecentInput, value } of list.getEntries()) {
    if (!hadRecentInput) window.shifted = (window.shifted ?? 0) + value;
  }
}).observe({type: "layout-shift", buffered: true});"""
MAX_SHIFT = 0.02
SWIPE = """(list, across) => {
  const at = (x) => [new Touch({identifier: 1, target: list, clientX: x, clientY: 500})];
  list.dispatchEvent(new TouchEvent("touchstart", {bubbles: true, touches: at(200), changedTouches: at(200)}));
  list.dispatchEvent(new TouchEvent("touchend", {bubbles: true, touches: [], changedTouches: at(200 + across)}));
}"""


class Site:
    """A run in the middle of a rollout, its longest finished attempt, and a browser."""

    def __init__(self, browser: Browser, client: Client, run: Run, trajectory: Trajectory, token: str) -> None:
        self.browser, self.client = browser, client
        self.live = f"/runs/{run.slug}/"
        self.player = f"/t/{trajectory.slug}"
        self.shared, self.embed = f"/s/{token}", f"/embed/{token}"

    def open(self, path: str, size: dict[str, int], **options: object) -> Page:
        context = self.browser.new_context(viewport=size, **options)  # type: ignore[arg-type]
        serve(context, self.client)
        page = context.new_page()
        page.add_init_script(SHIFTS)
        page.goto(ORIGIN + path)
        page.locator("html.ready").wait_for()
        page.wait_for_timeout(400)
        return page


@pytest.fixture
def site(
    transactional_db: None, people: People, run: Run, tmp_path: Path, settings: Settings, browser: Browser
) -> Iterator[Site]:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    settings.ALLOWED_HOSTS = ["*"]
    run.config["rollout"] |= {"groups": 16, "group_size": 8}
    run.save()
    play(run, finished=1, playing_rounds=2)
    client = Client()
    client.force_login(people.owner)
    ended = Trajectory.objects.filter(run=run, status=Trajectory.Status.FAILED)
    trajectory = ended.order_by("-turn_count", "pk")[0]
    site = Site(browser, client, run, trajectory, do_share_trajectory(trajectory, people.owner).token)
    yield site
    for context in browser.contexts:
        context.close()


def box(page: Page, selector: str) -> dict[str, float]:
    found = page.locator(selector).first.bounding_box()
    assert found is not None, f"{selector} is not visible"
    return dict(found)


@pytest.mark.parametrize(("size", "least", "most"), [("laptop", 440, 560), ("wide", 600, 720)])
def test_the_board_grows_with_the_window(site: Site, size: str, least: int, most: int) -> None:
    for path in (site.live, site.player):
        page = site.open(path, SIZES[size])
        board = box(page, "[data-player] .board")
        assert least <= board["width"] <= most, path
        assert board["width"] == board["height"]
        assert board["y"] + board["height"] <= SIZES[size]["height"], "it is above the fold"
        title = box(page, ".run-colour, .trajectory-head h1")
        assert abs(box(page, ".brand")["x"] - title["x"]) < 1, "navigation and content begin on one line"
        assert page.evaluate("window.shifted ?? 0") < MAX_SHIFT
        labels = page.locator(".board .coordinates text").all_inner_texts()
        assert labels, "rows and columns are numbered"
        assert "1" not in labels, "the outer wall is cropped, and numbers are those of the whole grid"


LONG_CAPTION = """() => {
  const drawn = document.querySelector('[data-stage-note]');
  const note = drawn.cloneNode(true); // the page goes on drawing the other one
  note.className += ' long';
  note.dataset.kind = 'replay';
  note.querySelector('.outcome').textContent = 'not solved: ' + 'Left locked the box in a corner. '.repeat(4);
  note.querySelector('[data-reel-link]').textContent = 'the first attempt solved after eleven that were not';
  for (const part of note.querySelectorAll('[hidden]')) part.hidden = false;
  drawn.before(note);
  // measured at once, since the page may draw its stage anew
  const parts = [note, note.querySelector('.why'), note.querySelector('.outcome')];
  return parts.map((part) => part.getBoundingClientRect().toJSON());
}"""


@pytest.mark.parametrize("width", [390, 1440, 1920])
def test_the_caption_of_a_replay_is_as_wide_as_the_stage_beside_a_long_verdict(site: Site, width: int) -> None:
    page = site.open(site.live, {"width": width, "height": 900})
    note, caption, verdict = page.evaluate(LONG_CAPTION)
    assert note["width"] > 0
    assert caption["width"] == pytest.approx(note["width"], abs=1)
    assert caption["y"] >= verdict["y"] + verdict["height"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_wall_is_large_enough_and_leaves_the_keys_to_the_player(site: Site) -> None:
    page = site.open(site.live, SIZES["laptop"])
    expect(page).to_have_title("2/4 · Live · Trial")
    cell = box(page, ".cell .hit")
    assert cell["width"] >= 24
    assert cell["height"] >= 24
    wall = box(page, ".wall-cells")
    page.locator(".cell.success").nth(3).hover()
    expect(page.locator("[data-thumbnail]")).to_be_visible()
    preview = box(page, "[data-thumbnail]")
    assert preview["x"] + preview["width"] <= wall["x"], "the preview leaves the wall uncovered"

    page.locator(".cell.success").nth(3).click()
    expect(page.locator("[data-stage-note]")).to_have_attribute("data-kind", "pinned")
    expect(page.get_by_role("button", name="Follow live")).to_have_attribute("aria-pressed", "false")
    title = page.locator("[data-stage-title]").inner_text()
    page.keyboard.press("Home")
    expect(page.locator("[data-stage] [data-scrub]")).to_have_value("0")
    page.keyboard.press("ArrowRight")
    expect(page.locator("[data-stage] [data-scrub]")).to_have_value("1")
    page.keyboard.press(" ")
    expect(page.get_by_role("button", name="Pause playback")).to_be_visible()
    assert page.locator("[data-stage-title]").inner_text() == title

    expect(page.locator("[data-trap-word]")).to_have_text("No data yet")
    assert box(page, ".trap")["height"] < 60, "one line without trouble"
    page.get_by_role("button", name="Echo Trap").press("Enter")
    expect(page.locator(".term-meaning:popover-open")).to_contain_text("one thought")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Got it").click()
    expect(page.locator("[data-intro]")).to_have_count(0)
    site.client.cookies.load({cookie["name"]: cookie["value"] for cookie in page.context.cookies()})
    assert "data-intro" not in site.client.get(site.live).content.decode(), "it does not come back"


def test_a_phone_shows_board_and_thought_together(site: Site) -> None:
    page = site.open(site.player, PHONE, has_touch=True, is_mobile=True)
    board = box(page, ".board")
    assert board["width"] == board["height"] >= 0.9 * PHONE["width"]
    thought = box(page, ".turn.current .thought")
    assert thought["y"] + 60 < box(page, ".controls")["y"], "two lines of the thought are in view"
    expect(page.locator(".turn:visible")).to_have_count(1)
    assert box(page, "[data-do=forward]")["height"] >= 44
    assert page.evaluate("window.shifted ?? 0") < MAX_SHIFT

    last = int(page.locator("[data-scrub]").get_attribute("max") or 0)
    for _ in range(last):
        page.locator("[data-do=forward]").click()
    page.evaluate("window.scrollTo(0, 300)")
    turn = page.locator(".turn:visible")
    expect(turn.locator(".turn-number")).to_have_text("Turn 5")
    page.locator("[data-turns]").evaluate(SWIPE, 90)
    expect(page.locator("[data-scrub]")).to_have_value(str(last - 1))
    page.locator("[data-turns]").evaluate(SWIPE, -90)
    expect(page.locator("[data-scrub]")).to_have_value(str(last))
    board, bar = box(page, ".board-box"), box(page, ".controls")
    assert board["y"] == 0, "the board sticks"
    assert bar["y"] + bar["height"] == PHONE["height"], "the steps stay under the thumb"

    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    thought = box(page, ".turn.current .thought")
    board = box(page, ".board-box")
    assert board["y"] + board["height"] <= thought["y"] < bar["y"], "the page follows the playback"


def test_an_embed_on_a_phone_shows_board_and_thought_together(site: Site) -> None:
    page = site.open(site.embed, {"width": 390, "height": 560})
    thought, board, controls = box(page, ".thought:visible"), box(page, ".board"), box(page, ".controls")
    assert board["y"] + board["height"] <= thought["y"]
    assert thought["y"] + thought["height"] <= controls["y"]
    assert controls["y"] + controls["height"] <= 560


def test_the_header_of_a_run_is_small_on_a_phone(site: Site) -> None:
    page = site.open(site.live, PHONE, has_touch=True, is_mobile=True)
    tabs = box(page, ".tabs")
    head = box(page, ".run-head")
    assert tabs["y"] + tabs["height"] - head["y"] <= 0.15 * PHONE["height"]
    assert page.evaluate("window.shifted ?? 0") < MAX_SHIFT
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    expect(page.get_by_role("link", name="Clone")).to_be_hidden()
    page.get_by_role("button", name="Actions", exact=True).click()
    expect(page.get_by_role("link", name="Clone")).to_be_in_viewport()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Menu").click()
    expect(page.get_by_role("link", name="Environments")).to_be_in_viewport()


def test_the_tab_of_the_present_page_is_in_view_on_a_phone(site: Site) -> None:
    page = site.open(f"{site.live.rstrip('/')}/configuration", PHONE, has_touch=True, is_mobile=True)
    expect(page.locator(".tabs [aria-current]")).to_be_in_viewport(ratio=1)
    assert page.evaluate("document.querySelector('.tabs').scrollLeft") > 0
