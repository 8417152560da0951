"""Play on from a position in a real browser: the form follows the player, answers arrive, keys open branches."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Browser, Page, expect
from pytest_django import Settings

from envs.base import Claim
from tests.browser.served import ORIGIN, serve, tables_beside_the_browser
from tests.browser.test_every_page import AXE, LOOK
from tests.webapp import played_branches as made
from tests.webapp.conftest import People, people, run
from tests.webapp.explorer.scripted_run import write_story
from tests.webapp.trajectories.scripted_attempt import events, sokoban
from trainer.journal.branches import Branches
from trainer.journal.events import Turn
from webapp.branching.models import BranchQuestion
from webapp.runs.models import Checkpoint, Run
from webapp.trajectories.models import Trajectory

__all__ = ["people", "run", "tables_beside_the_browser"]

MOVES = [["Right"], ["Down"], ["Right"], ["Down"], ["Left"]]
THOUGHT = "The box is at 2,3. I push it up."
CLAIM = Claim(
    start=0,
    end=17,
    true=False,
    kind="box_position",
    actual="the box is at row 3, column 3",
    cells=[(1, 2)],
    actual_cells=[(2, 2)],
)


@pytest.fixture
def attempt(transactional_db: None, people: People, run: Run, tmp_path: Path, settings: Settings) -> Trajectory:
    """A lost attempt of five turns; at the second one the thought is wrong about the box."""
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    settings.ALLOWED_HOSTS = ["*"]
    wrong = {"thought": THOUGHT, "claims": [CLAIM]}
    lines = list(events(sokoban(), MOVES))
    write_story(
        run,
        [line.model_copy(update=wrong) if isinstance(line, Turn) and line.turn == 1 else line for line in lines],
    )
    for iteration in (1, 2):
        Checkpoint.objects.create(run=run, iteration=iteration, path="", bytes=0, time=timezone.now())
    return Trajectory.objects.get(run=run)


def opened(browser: Browser, people: People, path: str, **options: Any) -> Page:
    client = Client()
    client.force_login(people.owner)
    context = browser.new_context(**options)
    serve(context, client)
    page = context.new_page()
    page.goto(f"{ORIGIN}{path}")
    page.locator("html.branches-ready").wait_for()
    return page


def test_a_false_claim_is_corrected_and_played_on(attempt: Trajectory, browser: Browser, people: People) -> None:
    page = opened(browser, people, f"/t/{attempt.slug}?turn=1", viewport={"width": 1440, "height": 900})
    form, turn = page.locator("#play-on"), page.locator("#ask-turn")
    page.keyboard.press("b")
    expect(form).to_have_attribute("open", "")
    expect(form.locator("summary").first).to_be_focused()
    expect(turn).to_have_value("1")
    page.keyboard.press("ArrowDown")
    expect(turn).to_have_value("2")
    page.locator("#ask-change").select_option("its answer")
    text = page.get_by_label("Text after the change")
    expect(text).to_have_value("Right")
    text.fill("Down")
    page.locator("h1").click()
    page.keyboard.press("ArrowDown")
    expect(turn).to_have_value("2")  # what was written belongs to turn 2
    page.keyboard.press("ArrowUp")

    page.get_by_role("button", name="Correct it and play on").click()
    expect(page.locator("#ask-change")).to_have_value("thought")
    expect(text).to_have_value("The box is at 3,3. I push it up.")
    expect(text).to_be_focused()
    assert page.evaluate("getSelection().toString()") == "The box is at 3,3"

    page.locator("#ask-samples").fill("99")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator("#ask-samples-error")).to_have_text("Enter a whole number from 1 to 64.")
    expect(page.locator("#ask-samples")).to_be_focused()
    expect(text).to_have_value("The box is at 3,3. I push it up.")
    page.locator("#ask-samples").fill("4")
    page.get_by_role("button", name="Ask", exact=True).click()
    row, status = page.locator(".question"), page.locator("[data-branch-words]")
    expect(row).to_be_focused()
    expect(row).to_contain_text("No worker is running")
    expect(row).to_contain_text("the thought changed")
    row.get_by_text("the thought changed").click()

    question = BranchQuestion.objects.get()
    assert (question.turn, question.change) == (1, {"thought": "The box is at 3,3. I push it up."})
    made.begin(question)
    made.play_on(question, [True, False])
    question.partial = {"2": {"turn": 1, "text": "The box is"}}
    question.save()
    expect(row).to_contain_text("2 of 4 branches")
    expect(row).to_contain_text("Branch 3, turn 2 The box is")
    expect(status).to_have_text("Turn 2: a worker plays on.")
    expect(row.locator(".change")).to_have_attribute("open", "")  # the answers do not fold it
    made.finish(question, Branches(solved=made.share(1, 2), failed=0))
    expect(row).to_contain_text("1 of 2 solved")
    expect(status).to_have_text("Turn 2: 1 of 2 solved")

    row.get_by_role("link", name="Branch 1: solved").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Branch 1 of 4")
    expect(page.locator("[data-position]")).to_contain_text("Turn 2 of 2")
    page.locator("html.ready").wait_for()
    page.keyboard.press("]")
    expect(page.get_by_role("heading", level=1)).to_have_text("Branch 2 of 4")
    page.locator("html.ready").wait_for()  # keys work from now on
    page.keyboard.press("G")
    page.wait_for_url(re.compile(rf"/t/{attempt.slug}\?turn=2"))
    expect(page.locator(f"#question-{question.slug}")).to_be_in_viewport()

    page.get_by_role("link", name="Branch 2: failed").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Branch 2 of 4")
    page.locator("html.branches-ready").wait_for()
    page.keyboard.press("b")
    expect(turn).to_have_value("2")
    page.get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_url(re.compile(rf"/t/{attempt.slug}\?turn=2"))
    expect(page.get_by_text("Before turn 2 the branch is this attempt")).to_be_visible()
    expect(page.locator(".question")).to_have_count(2)
    page.context.close()


@pytest.mark.parametrize(("theme", "width"), [("light", 320), ("dark", 390), ("light", 1440)])
def test_answers_of_all_kinds_fit_and_axe_finds_nothing(
    attempt: Trajectory, browser: Browser, people: People, theme: str, width: int
) -> None:
    user = people.owner
    made.value(attempt, user, [15, 14, 3, 2, 0])
    made.thoughts(attempt, user)
    made.branches(attempt, user, [number % 3 == 0 for number in range(64)], variants=20)
    running = made.ask(attempt, user, turn=3, change={"answer": "Up || Left"}, temperature=0.0, luck="fresh")
    made.begin(running)
    made.ask(attempt, user, turn=3)
    made.ask(attempt, user, turn=4, state="failed", error="The memory does not suffice: it needs 3 GB.")
    page = opened(browser, people, f"/t/{attempt.slug}", color_scheme=theme, viewport={"width": width, "height": 900})
    page.keyboard.press("b")
    page.locator("#ask-change").select_option("its thought")
    for part in page.locator(".questions details > summary").all():
        part.click()
    page.evaluate(AXE.read_text(encoding="utf-8"))
    assert page.evaluate(LOOK) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.context.close()
