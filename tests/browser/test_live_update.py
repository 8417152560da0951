"""The live page in a warm-up and in an update: progress, pulsing groups, the reel, which the user may take over."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.test import Client
from playwright.sync_api import Browser, Page, WebSocketRoute, expect
from pytest_django import Settings

from tests.browser.served import ORIGIN, serve, tables_beside_the_browser
from tests.browser.static_pages import Scheme, html, static_pages
from tests.webapp import journal_builder
from tests.webapp.conftest import People, people, run
from trainer.config.run import RunConfig
from trainer.journal import events as journal
from webapp.ingest.tailer import JournalTailer
from webapp.runs.models import Run

__all__ = ["people", "run", "tables_beside_the_browser"]


def update(done: int, groups: list[int], **fields: float) -> journal.Phase:
    return journal.Phase(
        phase="update",
        iteration=1,
        done=done,
        total=24,
        unit="micro-batches",
        share=done / 48,
        iteration_shares={"rollout": 0.4, "update": 0.6},
        update=journal.UpdateProgress(stage="step", pass_number=1, passes=2, groups=groups),
        **fields,
    )


@contextmanager
def opened(
    run: Run, people: People, browser: Browser, *events: journal.Event
) -> Iterator[tuple[Page, list[WebSocketRoute]]]:
    """The page of a run with these events, and its sockets, which the test answers."""
    Run.objects.filter(pk=run.pk).update(state=Run.State.STARTING, config=run.config)
    run.refresh_from_db()
    journal_builder.write(run.folder, *events)
    JournalTailer(run).drain()
    client = Client()
    client.force_login(people.owner)
    context = browser.new_context(viewport={"width": 1380, "height": 900})
    sockets: list[WebSocketRoute] = []
    serve(context, client)
    context.route_web_socket(re.compile(r"/ws/runs/"), lambda socket: sockets.append(socket))
    page = context.new_page()
    page.goto(f"{ORIGIN}/runs/{run.slug}/")
    yield page, sockets
    context.close()


@pytest.fixture
def watched(transactional_db: None, run: Run, tmp_path: Path, settings: Settings) -> Run:
    """A run whose journal the site reads from a folder of the test."""
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    settings.ALLOWED_HOSTS = ["*"]
    return run


@pytest.fixture
def updating(watched: Run, people: People, browser: Browser) -> Iterator[tuple[Page, list[WebSocketRoute]]]:
    """The page of a run whose first rollout is over."""
    played = list(journal_builder.iteration(1))[:-1]  # without the metrics of its update
    eta = {"eta_seconds": 600.0, "eta_low_seconds": 480.0, "eta_high_seconds": 780.0}
    with opened(watched, people, browser, journal_builder.started(), *played, update(6, [0], **eta)) as page:
        yield page


def test_a_warm_up_moves_the_bar_and_has_a_remaining_time(watched: Run, people: People, browser: Browser) -> None:
    data = RunConfig.model_validate(watched.config).model_dump(mode="json")
    data["policy"]["model"], data["sft"]["warmup_steps"] = "org/model", 16
    watched.config = data
    share = watched.length.warmup_share
    phase = journal.Phase(phase="warmup", iteration=0, done=4, total=16, unit="steps", share=0.25)
    step = journal.Metrics(iteration=-12, tokens=9, seconds=4.0, values={"sft/loss": 0.5})
    with opened(watched, people, browser, journal_builder.started(from_iteration=-16), step, phase) as (page, sockets):
        text, bar = page.locator("[data-phase]"), page.locator("[data-progress]")
        expect(text).to_have_text("Warm-up 4 of 16 steps")
        assert float(bar.get_attribute("value") or 0) == pytest.approx(share / 4, abs=1e-4)

        later = {"done": 12, "share": 0.8, "eta_seconds": 600.0, "eta_low_seconds": 300.0, "eta_high_seconds": 1200.0}
        event = phase.model_copy(update=later).model_dump(exclude_none=True) | {"seq": 100}
        sockets[0].send(json.dumps({"type": "events", "first": 100, "last": 100, "events": [event]}))
        expect(text).to_have_text("Warm-up 12 of 16 steps")
        expect(page.locator("[data-pace]")).to_contain_text("10 min left (5 min to 20 min)")
        assert float(bar.get_attribute("value") or 0) == pytest.approx(share * 0.8)


def test_an_update_moves_and_its_reel_hands_over_to_the_user(updating: tuple[Page, list[WebSocketRoute]]) -> None:
    page, sockets = updating
    expect(page.locator("[data-phase]")).to_have_text("Iteration 1 of 4 · update: pass 1 of 2, micro-batch 7 of 24")
    expect(page.locator("[data-pace]")).to_contain_text("10 min left (8 min to 13 min)")

    # a report between two events moves the pulse
    expect(page.locator(".learning .row-label")).to_have_text("1")
    report = update(9, [1]).model_dump(exclude_none=True) | {"time": 4e9}
    sockets[0].send(json.dumps({"type": "progress", "phase": report}))
    expect(page.locator("[data-phase]")).to_contain_text("micro-batch 10 of 24")
    expect(page.locator(".learning .row-label")).to_have_text("2")

    # the reel plays and says so
    note = page.locator("[data-stage-note]")
    expect(note).to_have_attribute("data-kind", "replay")
    expect(note.get_by_role("link")).to_contain_text("Largest surprise")
    expect(note).to_contain_text("1 of 2")
    page.keyboard.press("h")
    expect(note).to_contain_text("2 of 2")

    # the user takes over, then follows again
    page.keyboard.press("ArrowRight")
    expect(note).to_have_attribute("data-kind", "pinned")
    page.keyboard.press("f")
    expect(note).to_have_attribute("data-kind", "replay")

    # the next rollout ends it
    group = journal_builder.group(2, 0, ["b", "c"]).model_dump(exclude_none=True)
    events = [
        {
            "type": "phase",
            "phase": "rollout",
            "iteration": 2,
            "done": 0,
            "total": 4,
            "unit": "trajectories",
            "seq": 100,
        },
        group | {"seq": 101, "slugs": ["sb", "sc"]},
    ]
    sockets[0].send(json.dumps({"type": "events", "first": 100, "last": 101, "events": events}))
    expect(note).to_have_attribute("data-kind", "live")
    expect(page.locator(".learning")).to_have_count(0)


FILLS = """() => {
  const animation = document.querySelector(".news .shape").getAnimations()[0];
  animation.pause();
  return [0, 4000, 5200, 6000, 6900].map((time) => {
    animation.currentTime = time;
    return getComputedStyle(document.querySelector(".shape")).fill;
  });
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_glow_of_a_new_success_fades_to_green_without_another_colour(scheme: Scheme, browser: Browser) -> None:
    """Chromium interpolates a plain colour and a mixed one to values far outside of oklab's range: bright yellow."""
    cell = '<svg><g class="cell success news"><path class="shape" d="M0 0H9V9H0Z"/></g></svg>'
    with static_pages(browser, 400, 300, scheme) as pages:
        page = pages.open(
            html(cell, "window.drawn = true", '<link rel="stylesheet" href="/static/css/run.css">'), "drawn"
        )
        for fill in page.evaluate(FILLS):
            lightness, a, b = map(float, fill.removeprefix("oklab(").removesuffix(")").split())
            assert 0.4 < lightness < 0.9, fill
            assert -0.3 < a < 0 < b < 0.3, f"{fill} is not green"
