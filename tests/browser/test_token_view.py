"""Token view and claims in a real browser, on a shared page: keyboard access and no layout shift."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from pytest_django import Settings

from tests.browser.served import open_known, tables_beside_the_browser
from tests.webapp.conftest import people, run
from tests.webapp.page_requests import Visitors, play, who
from webapp.runs.models import Run
from webapp.trajectories.actions import do_share_trajectory
from webapp.trajectories.models import TokenArrays, Trajectory

__all__ = ["people", "run", "tables_beside_the_browser", "who"]

Open = Callable[[Trajectory], Page]


@pytest.fixture
def trajectory(run: Run, tmp_path: Path, settings: Settings) -> Trajectory:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    play(run)
    found = Trajectory.objects.filter(run=run, group__kept=True).order_by("-turn_count").first()
    assert found is not None
    return found


@pytest.fixture
def opened(browser: Browser, who: Visitors) -> Iterator[Open]:
    """The shared page of a trajectory as served by the site, with its Content-Security-Policy."""
    contexts = []
    faults: list[str] = []

    def make(trajectory: Trajectory) -> Page:
        link = do_share_trajectory(trajectory, trajectory.run.author)  # type: ignore[arg-type]
        paths = (f"/s/{link.token}", f"/s/{link.token}/tokens.json")
        known = {path: who.anonymous.get(path) for path in paths}
        context = browser.new_context(viewport={"width": 1100, "height": 900})
        contexts.append(context)
        page = open_known(context, known, faults)
        expect(page.locator("html")).to_have_class(re.compile("ready"))
        page.keyboard.press("Home")  # it opens at the mistake
        return page

    yield make
    for context in contexts:
        context.close()
    assert not faults


def test_tokens_are_readable_by_keyboard(trajectory: Trajectory, opened: Open) -> None:
    page = opened(trajectory)
    thoughts = page.locator(".turn .thought").all_inner_texts()
    page.keyboard.press("t")
    expect(page.get_by_label("Token view")).to_be_checked()
    readout = page.locator("[data-token-readout]")
    expect(readout).to_contain_text("Point at a token")
    expect(page.locator(".turn .thought").first).to_be_hidden()
    tokens = page.get_by_role("listbox", name="Tokens of turn 1").get_by_role("option")
    shown = "".join(tokens.all_text_contents())
    response = trajectory.turns.get(number=0).event["response"]
    assert shown == response + "∎"

    page.locator(".turn-state summary").first.focus()
    page.keyboard.press("Tab")
    expect(tokens.nth(0)).to_be_focused()
    expect(readout).to_contain_text(re.compile(r"probability \d.* · token 1 of \d+ in turn 1"))
    before = page.locator("[data-position]").inner_text()
    page.keyboard.press("ArrowRight")
    expect(tokens.nth(1)).to_be_focused()
    expect(tokens.nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("End")
    expect(readout).to_contain_text("End of the response")
    if trajectory.turn_count > 1:
        page.keyboard.press("ArrowDown")
        expect(readout).to_contain_text("token 1 of")
        expect(readout).to_contain_text("in turn 2")
    assert page.locator("[data-position]").inner_text() == before, "the player's own keys were not meant"

    page.keyboard.press("Escape")
    expect(page.get_by_label("Token view")).to_be_focused()
    page.keyboard.press("t")
    assert page.locator(".turn .thought").all_inner_texts() == thoughts


def test_claims_light_their_cells_by_pointer_and_keyboard(trajectory: Trajectory, opened: Open) -> None:
    for turn in trajectory.turns.all():
        false = {"start": 2, "end": 9, "true": False, "actual": "it is elsewhere", "cells": [[1, 1]]}
        false |= {"kind": "direction", "placed": "box_position"} if turn.number == 0 else {"kind": "box_position"}
        claims = [{"start": 0, "end": 1, "true": True, "cells": [[1, 1], [1, 2]]}, false | {"actual_cells": [[2, 2]]}]
        turn.event = turn.event | {"thought": "😀 box 1,1.", "claims": claims}
        turn.save(update_fields=["event"])
    page = opened(trajectory)
    true, wrong = page.locator(".turn").first.locator(".claim").all()
    expect(wrong).to_have_text("box 1,1")
    expect(wrong).to_have_accessible_name("box 1,1 – False: it is elsewhere.")
    expect(page.locator(".belief .crate")).to_have_count(1)
    expect(page.locator("[data-belief]")).to_have_text(
        "Translucent: where the thought sees it. In truth, it is elsewhere."
    )
    wrong.hover()
    expect(page.locator("rect.lit.wrong")).to_have_count(1)
    expect(page.locator("rect.lit.actual")).to_have_count(1)
    assert "it is elsewhere" in wrong.evaluate("node => getComputedStyle(node, '::after').content")
    page.mouse.move(0, 0)
    expect(page.locator("rect.lit")).to_have_count(0)
    true.focus()
    expect(page.locator("rect.lit.right")).to_have_count(2)
    page.keyboard.press("Tab")
    expect(wrong).to_be_focused()
    expect(page.locator("rect.lit.wrong")).to_have_count(1)
    page.keyboard.press("ArrowRight")
    expect(page.locator("[data-position]")).not_to_contain_text("before its actions")
    expect(page.locator(".belief")).to_have_count(0)
    page.keyboard.press("Enter")
    expect(page.locator("[data-position]")).to_contain_text("before its actions")
    expect(page.locator("rect.lit.actual")).to_have_count(1)
    expect(page.locator(".belief .crate")).to_have_count(1)


def test_shades_change_with_the_metric_without_layout_shift(trajectory: Trajectory, opened: Open) -> None:
    page = opened(trajectory)
    page.evaluate(
        "() => { const real = fetch; window.fetch = async (...given) => {"
        " await new Promise((go) => { window.letIn = go }); return real(...given); } }"
    )
    page.keyboard.press("t")
    expect(page.locator("[data-token-readout]")).to_have_text("Loading the tokens …")
    places = "[...document.querySelectorAll('.turn')].map((turn) => [turn.offsetTop, turn.offsetHeight])"
    waiting = page.evaluate(places)
    page.evaluate("letIn()")
    expect(page.locator(".token-text .token").first).to_be_attached()
    assert page.evaluate(places) == waiting
    select = page.get_by_label("Shade by")
    select.select_option("advantage")
    legend = page.locator("[data-token-legend]")
    expect(legend).to_contain_text("≥ +")
    assert page.locator(".token-text .token[data-sign='+'], .token-text .token[data-sign='−']").count() > 0
    line = page.locator(".token-text .token[data-sign='−']").first
    if line.count():
        assert "overline" in line.evaluate("node => getComputedStyle(node).textDecorationLine")
    select.select_option("entropy")
    expect(legend).to_have_text(re.compile("< 0.1.*≥ 2"))
    assert page.evaluate(places) == waiting


def test_a_trajectory_without_tokens_explains_why_and_stays_readable(trajectory: Trajectory, opened: Open) -> None:
    TokenArrays.objects.all().delete()
    Run.objects.update(config={"journal": {"tokens": "none"}})
    page = opened(trajectory)
    page.keyboard.press("t")
    expect(page.locator("[data-token-readout]")).to_contain_text("Launch it with journal.tokens = all")
    expect(page.locator(".turn .thought").first).to_be_visible()
    expect(page.get_by_label("Shade by")).to_be_disabled()
