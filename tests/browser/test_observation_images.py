"""Images of observations in a real browser: beside the state, on the board, enlarged by keyboard, on the live page."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.core.management import call_command
from django.test import Client
from PIL import Image, ImageDraw
from playwright.sync_api import Browser, Page, Route, WebSocketRoute, expect
from pytest_django import Settings

import echoscope
from tests.browser.served import ORIGIN, serve, tables_beside_the_browser
from tests.browser.test_every_page import AXE, LOOK
from tests.running_product import wait_for
from tests.webapp.conftest import People, people, run
from tests.webapp.observed_images import sha256_of
from webapp.runs.models import Run
from webapp.trajectories.actions import do_share_trajectory
from webapp.trajectories.models import Trajectory

__all__ = ["people", "run", "tables_beside_the_browser"]


def game_frame(ball: tuple[int, int]) -> Image.Image:
    """A frame of a small game, 84 pixels a side."""
    image = Image.new("RGB", (84, 84), (24, 28, 52))
    draw = ImageDraw.Draw(image)
    draw.rectangle((4, 30, 6, 46), fill="white")
    draw.rectangle((77, 20, 79, 36), fill="white")
    draw.rectangle((*ball, ball[0] + 2, ball[1] + 2), fill="gold")
    return image


def screenshot(title: str) -> Image.Image:
    """A page of a shop, as a browser shows it."""
    image = Image.new("RGB", (1280, 720), "white")
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, 1280, 80), fill=(32, 60, 110))
    draw.text((30, 24), title, fill="white", font_size=30)
    for number in range(6):
        left, top = 40 + number % 3 * 410, 120 + number // 3 * 290
        draw.rectangle((left, top, left + 380, top + 250), outline="grey", width=3)
        draw.text((left + 20, top + 200), f"Article {number + 1}", fill="black", font_size=24)
    return image


@pytest.fixture
def observed(transactional_db: None, people: People, tmp_path: Path, settings: Settings) -> Run:
    """A run of another trainer: the first trajectory saw frames of a game, the second two screenshots of a shop."""
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    settings.ALLOWED_HOSTS = ["*"]
    recording = echoscope.init("Seen", folder=tmp_path / "recorded", environment="Pong")
    with recording.trajectory(prompt="Play.", iteration=1) as game:
        for turn in range(3):
            game.turn(
                state=f"Frame {turn}, score 0:0",
                images=game_frame((20 + 15 * turn, 30 + 5 * turn)),
                response="The ball comes nearer, so I move up.",
                thought="The ball comes nearer, so I move up.",
                answer="up",
                actions=["up"],
                reward=0.1,
            )
        game.finish(success=True)
    with recording.trajectory(prompt="Buy it.", iteration=1, environment="Shop", board="A shop") as shop:
        shop.turn(
            state="Before and after the click",
            images=[screenshot("Shop"), screenshot("Basket")],
            response="I buy article 1.",
            actions=["click"],
        )
    recording.finish()
    call_command("import_journal", str(tmp_path / "recorded"), team=people.team.slug)
    return Run.objects.get(title="Seen")


Open = Callable[..., Page]


@pytest.fixture
def opened(observed: Run, people: People, browser: Browser) -> Iterator[Open]:
    """Opens pages as the owner, or without an account; a message of the console fails the test."""
    messages: list[str] = []
    contexts = []

    def open_page(path: str, ready: str = "html.ready", *, anonymous: bool = False, **options: Any) -> Page:
        client = Client()
        if not anonymous:
            client.force_login(people.owner)
        context = browser.new_context(**options)
        contexts.append(context)
        serve(context, client)
        page = context.new_page()
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.goto(f"{ORIGIN}{path}")
        page.locator(ready).wait_for()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert messages == []


def attempt(run: Run, environment: str) -> Trajectory:
    return Trajectory.objects.get(run=run, group__environment=environment)


def save_screenshot(page: Page, name: str) -> None:
    """Into the folder SCREENSHOTS, to be looked at."""
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


def loaded(page: Page) -> None:
    """Wait until every image that is shown has arrived."""
    missing = "[...document.images].filter((image) => image.checkVisibility() && !image.naturalWidth).length"
    wait_for(lambda: page.evaluate(missing) == 0, "images", lambda: page.content())


def test_an_image_is_enlarged_and_closed_with_the_keyboard(observed: Run, opened: Open) -> None:
    page = opened(f"/t/{attempt(observed, 'Pong').slug}?turn=3", viewport={"width": 1300, "height": 900})
    link = page.locator("[data-board]").get_by_role("link", name="Observation of turn 3")
    expect(link.get_by_role("img")).to_have_attribute("width", "84")
    link.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Observation of turn 3")
    expect(dialog).to_be_visible()
    expect(dialog).to_contain_text("84 × 84 pixels")
    box = dialog.get_by_role("img").bounding_box()
    assert box is not None
    assert box["height"] > 600, "it is larger than on the board"
    position = page.locator("[data-position]").inner_text()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("[data-position]")).to_have_text(position)
    page.keyboard.press("Escape")
    expect(page.locator("dialog.image-dialog")).to_have_count(0)
    expect(link).to_be_focused()

    link.press("Enter")
    expect(dialog.get_by_role("button", name="Close")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("dialog.image-dialog")).to_have_count(0)
    link.click()
    dialog.get_by_role("img").click()
    expect(page.locator("dialog.image-dialog")).to_have_count(0)


def test_an_empty_board_shows_what_was_observed_at_the_position(observed: Run, opened: Open) -> None:
    page = opened(f"/t/{attempt(observed, 'Pong').slug}", viewport={"width": 1300, "height": 900})
    board = page.locator("[data-board]")
    expect(board.get_by_role("img", name="Observation of turn 1")).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(board.get_by_role("img", name="Observation of turn 2")).to_be_visible()
    page.goto(f"{ORIGIN}/t/{attempt(observed, 'Shop').slug}")
    page.locator("html.ready").wait_for()
    expect(board).to_have_text("A shop")
    expect(page.get_by_role("link", name="Observation of turn 1, image 2 of 2")).to_be_visible()


def test_nothing_moves_when_images_arrive(observed: Run, people: People, browser: Browser) -> None:
    client, held = Client(), list[Route]()
    client.force_login(people.owner)
    with browser.new_context(viewport={"width": 1300, "height": 900}) as context:
        serve(context, client)
        page = context.new_page()
        page.route("**/images/*", lambda route: held.append(route))
        page.goto(f"{ORIGIN}/t/{attempt(observed, 'Shop').slug}", wait_until="domcontentloaded")
        page.locator("html.ready").wait_for()
        places = """[...document.querySelectorAll(".turn *")].flatMap((node) => {
          const { x, y, width, height } = node.getBoundingClientRect();
          return [x, y, width, height];
        })"""
        before = page.evaluate(places)
        assert not page.evaluate("[...document.images].some((image) => image.naturalWidth)")
        for route in held:
            body = client.get(urlsplit(route.request.url).path, HTTP_HOST="localhost").content
            route.fulfill(body=body, content_type="image/png")
        loaded(page)
        assert page.evaluate(places) == pytest.approx(before, abs=0.5), "sizes are rounded to whole pixels"


@pytest.mark.parametrize(("width", "scheme"), [(1300, "light"), (390, "dark")])
def test_images_fit_the_page_in_both_themes_on_a_desk_and_a_phone(
    observed: Run, opened: Open, people: People, width: int, scheme: str
) -> None:
    link = do_share_trajectory(attempt(observed, "Shop"), people.owner)
    pages = {
        "game": f"/t/{attempt(observed, 'Pong').slug}?turn=2",
        "shop": f"/s/{link.token}",
        "embed": f"/embed/{link.token}",
    }
    for name, path in pages.items():
        page = opened(path, anonymous=name != "game", viewport={"width": width, "height": 900}, color_scheme=scheme)
        loaded(page)
        save_screenshot(page, f"{name}-{width}-{scheme}")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        page.evaluate(AXE.read_text(encoding="utf-8"))
        assert page.evaluate(LOOK) == []
    page.locator(".turn-image").first.click()
    loaded(page)
    save_screenshot(page, f"dialog-{width}-{scheme}")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.evaluate(LOOK) == []


def test_an_image_that_was_not_sent_is_named(observed: Run, opened: Open, browser: Browser, people: People) -> None:
    game = attempt(observed, "Pong")
    (file,) = {
        observed.folder / "images" / f"{image['sha256']}.png" for image in game.turns.get(number=1).event["images"]
    }
    file.unlink()
    client = Client()
    client.force_login(people.owner)
    with browser.new_context() as context:  # whose console reports the answer 404
        serve(context, client)
        page = context.new_page()
        page.goto(f"{ORIGIN}/t/{game.slug}?turn=2")
        words = "Observation of turn 2: the image was not sent, or cannot be loaded."
        expect(page.locator("[data-board]").get_by_text(words)).to_be_visible()


def test_the_live_stage_shows_an_image_with_its_turn(
    observed: Run, people: People, browser: Browser, tmp_path: Path
) -> None:
    Run.objects.update(state=Run.State.RUNNING)
    client = Client()
    client.force_login(people.owner)
    with browser.new_context(viewport={"width": 1380, "height": 900}) as context:
        sockets: list[WebSocketRoute] = []
        messages: list[str] = []
        serve(context, client)
        context.route_web_socket(re.compile(r"/ws/runs/"), lambda socket: sockets.append(socket))
        page = context.new_page()
        page.on("console", lambda message: messages.append(message.text))
        page.goto(f"{ORIGIN}/runs/{observed.slug}/")
        lines = (tmp_path / "recorded" / "journal.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in lines]
        (group,) = (event for event in events if event["type"] == "group_started" and event["environment"] == "Pong")
        turns = [event for event in events if event["type"] == "turn" and event["trajectory"] in group["members"]]
        slug = attempt(observed, "Pong").slug
        seq = observed.seq
        wait_for(lambda: sockets, "the page connects", lambda: str(messages))
        started = {**group, "members": ["new"], "slugs": [slug], "iteration": 2}
        for event in (started, *({**turn, "trajectory": "new"} for turn in turns[:2])):
            seq += 1
            frame = {"type": "events", "first": seq, "last": seq, "events": [{**event, "seq": seq}]}
            sockets[0].send(json.dumps(frame))
        shown = page.locator("[data-stage] [data-board] img")
        expect(shown).to_have_attribute("alt", "Observation of turn 2")
        address = f"/t/{slug}/images/{turns[1]['images'][0]['sha256']}"
        expect(shown).to_have_attribute("src", address)
        assert sha256_of(client.get(address).content) == turns[1]["images"][0]["sha256"]
        loaded(page)
        save_screenshot(page, "live")
        assert messages == []
