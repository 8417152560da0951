"""Evaluation tab in a browser: results that arrive while it is open are drawn and announced."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.running_product import LiveStack, wait_for

pytestmark = pytest.mark.browser

SET_UP = """
from tests.webapp.explorer.scripted_run import story, write_story
from trainer.config.run import RunConfig
from webapp.runs.models import Run
from webapp.teams.models import Team
config = RunConfig(iterations=8).model_dump(mode="json")
run = Run.objects.create(team=Team.objects.first(), title="Examined", config=config, environment="Sokoban")
write_story(run, story())
print("slug=" + run.slug)
"""
CONTINUE = """
from tests.webapp.recorded_journal import evaluated
from tests.webapp.explorer.scripted_run import write_story
from webapp.runs.models import Run
write_story(Run.objects.get(slug="{slug}"), [evaluated({iteration}, {success})])
"""


def set_up(stack: LiveStack) -> str:
    """Slug of a run with an evaluation."""
    return stack.manage("shell", input=SET_UP).split("slug=")[1].split()[0]


def test_a_new_result_is_drawn_and_announced_while_the_tab_is_open(
    live_stack: LiveStack, signed_in: Callable[..., Page]
) -> None:
    slug = set_up(live_stack)
    live_stack.manage("shell", input=CONTINUE.format(slug=slug, iteration=2, success=0.5))
    page = signed_in()
    page.goto(f"/runs/{slug}/evaluation")
    page.wait_for_selector("html.ready.exams-ready")
    rows = page.locator("#exams tbody tr")
    before = rows.count()
    link = page.get_by_role("link", name="after iteration 2")
    link.focus()
    live_stack.manage("shell", input=CONTINUE.format(slug=slug, iteration=4, success=0.75))
    expect(rows).to_have_count(before + 1)
    expect(rows.last).to_contain_text("75.0%")
    expect(page.locator("[data-results-announcement]")).to_have_text("Sokoban: 75.0% after iteration 4.")
    expect(link).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/trajectories?split=eval&suite=Sokoban&iteration=2")


def test_an_interrupted_request_is_retried(live_stack: LiveStack, signed_in: Callable[..., Page]) -> None:
    slug = set_up(live_stack)
    page = signed_in()
    page.goto(f"/runs/{slug}/evaluation")
    page.wait_for_selector("html.ready.exams-ready")
    cut = []

    def once(route: Route) -> None:
        cut.append(route.request.url)
        route.abort("internetdisconnected")

    page.route(f"**/runs/{slug}/evaluation", once, times=1)
    live_stack.manage("shell", input=CONTINUE.format(slug=slug, iteration=6, success=0.25))
    expect(page.locator("#exams tbody tr").last).to_contain_text("25.0%")
    assert len(cut) == 1


def test_an_expired_session_redirects_to_the_login(live_stack: LiveStack, signed_in: Callable[..., Page]) -> None:
    slug = set_up(live_stack)
    page = signed_in()
    frames: list[str | bytes] = []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda data: frames.append(data)))
    page.goto(f"/runs/{slug}/evaluation")
    page.wait_for_selector("html.ready.exams-ready")
    # a connection made only after the cookie is gone would be refused and receive no result
    wait_for(lambda: frames or page.wait_for_timeout(100), "the first frame")
    page.context.clear_cookies()
    live_stack.manage("shell", input=CONTINUE.format(slug=slug, iteration=8, success=1.0))
    page.wait_for_url("**/login?next=**")
