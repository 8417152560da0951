"""The player of notebooks in a frame of a real browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, FrameLocator, Page, expect

import echoscope
from tests.echoscope.recorded_run import run_folder
from tests.webapp.observed_images import image_file
from trainer.journal.protocol import JOURNAL_FILE

__all__ = ["run_folder"]

Record = dict[str, Any]


@pytest.fixture(scope="module")
def longest(run_folder: Path) -> tuple[str, list[Record], Record]:
    """Key, turns and end of a trajectory of several turns."""
    lines = [json.loads(line) for line in (run_folder / JOURNAL_FILE).read_text().splitlines()]
    keys = [line["trajectory"] for line in lines if line["type"] == "turn"]
    key = max(keys, key=lambda one: (keys.count(one), one))
    mine = [line for line in lines if line.get("trajectory") == key]
    (end,) = [line for line in mine if line["type"] == "trajectory_finished"]
    return key, [line for line in mine if line["type"] == "turn"], end


def displayed(browser: Browser, player: echoscope.Player, **options: Any) -> tuple[Page, FrameLocator, list[str]]:
    """The player as a notebook shows it: its HTML within the page of another origin."""
    page = browser.new_context(**options).new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.set_content(f"<body style='margin:0'>{player._repr_html_()}</body>")
    return page, page.frame_locator("iframe"), problems


def test_a_trajectory_of_a_journal_plays_in_a_frame(
    browser: Browser, run_folder: Path, longest: tuple[str, list[Record], Record]
) -> None:
    key, turns, end = longest
    page, frame, problems = displayed(browser, echoscope.player(run_folder, trajectory=key))
    expect(frame.locator("#title")).to_have_text("Sokoban, iteration 1")
    expect(frame.locator("#outcome")).to_contain_text("solved" if end["success"] else "not solved")
    executed = [action for turn in turns for action in turn["actions"] if action["status"] == "executed"]
    count = len(turns) + len(executed)
    expect(frame.locator("#place")).to_have_text(f"1 / {count}")
    expect(frame.locator("#board svg rect").first).to_be_visible()
    frame.get_by_label("Position").press("End")
    expect(frame.locator("#place")).to_have_text(f"{count} / {count}")
    expect(frame.locator("#turn")).to_contain_text(f"Turn {len(turns)} of {len(turns)}")
    expect(frame.locator("#turn")).to_contain_text(turns[-1]["thought"])
    expect(frame.get_by_label("Forward")).to_be_disabled()
    label = frame.locator("#board").get_attribute("aria-label")
    assert label == "\n".join((executed[-1]["board"] if turns[-1]["actions"] else turns[-1]["board"])["rows"])
    frame.get_by_label("Back").click()
    expect(frame.locator("#place")).to_have_text(f"{count - 1} / {count}")
    assert problems == []
    page.context.close()


def test_it_plays_opens_at_a_position_and_takes_keys(
    browser: Browser, run_folder: Path, longest: tuple[str, list[Record], Record]
) -> None:
    key, turns, _ = longest
    page, frame, problems = displayed(browser, echoscope.player(run_folder, trajectory=key, turn=2))
    expect(frame.locator("#turn")).to_contain_text(f"Turn 2 of {len(turns)}")
    before = frame.locator("#place").inner_text()
    frame.locator("#turn").focus()
    page.keyboard.press("ArrowLeft")
    expect(frame.locator("#place")).not_to_have_text(before)
    frame.get_by_label("Play").click()
    expect(frame.get_by_label("Pause")).to_be_visible()
    expect(frame.locator("#place")).to_have_text(before)
    assert problems == []
    page.context.close()


def test_reduced_motion_keeps_it_from_playing_by_itself(
    browser: Browser, run_folder: Path, longest: tuple[str, list[Record], Record]
) -> None:
    shown = echoscope.player(run_folder, trajectory=longest[0], autoplay=True)
    page, frame, _ = displayed(browser, shown, reduced_motion="reduce")
    expect(frame.get_by_label("Play")).to_be_visible()
    page.context.close()
    page, frame, _ = displayed(browser, shown)
    expect(frame.get_by_label("Pause")).to_be_visible()
    page.context.close()


HOSTILE = '</script><img src=x onerror="parent.stolen=1"><!-- \u2028 & "quoted" \''


def test_texts_of_a_trajectory_are_texts(browser: Browser) -> None:
    turn = {"state": HOSTILE, "response": HOSTILE, "thought": HOSTILE, "problem": HOSTILE, "actions": []}
    turn["actions"] = [{"text": HOSTILE, "name": None, "status": "illegal"}]
    document = {"environment": HOSTILE, "prompt": HOSTILE, "board": None, "turns": [turn], "success": False}
    page, frame, problems = displayed(browser, echoscope.player(document))
    expect(frame.locator("#title")).to_have_text(HOSTILE)
    expect(frame.locator("#turn li")).to_have_text(HOSTILE)
    assert frame.locator("img").count() == 0
    assert page.evaluate("window.stolen") is None
    assert problems == []
    page.context.close()


@pytest.mark.parametrize(
    ("board", "text"),
    [
        ({"kind": "text", "text": "3 + 4"}, "3 + 4"),
        ({"kind": "grid", "theme": "unknown", "rows": ["ab", "cd"]}, "ab\ncd"),
        (
            {"kind": "arms", "arms": [{"name": "A", "pulls": 1, "last": 2.5}, {"name": "B"}]},
            "A: pulled, paid 2.5\nB: not pulled",
        ),
        (
            {
                "kind": "page",
                "title": "Shop",
                "address": "shop",
                "sections": [{"layout": "list", "title": "Found", "items": [{"text": "Lamp", "detail": "$5"}]}],
            },
            "Shop\nshop\n\nFound\nLamp  $5",
        ),
    ],
)
def test_boards_that_are_no_grid_are_shown_as_text(browser: Browser, board: Record, text: str) -> None:
    document = {"environment": "E", "board": board, "turns": [{"response": "r", "actions": []}]}
    page, frame, problems = displayed(browser, echoscope.player(document))
    expect(frame.locator("#board pre")).to_be_visible()
    assert frame.locator("#board pre").inner_text() == text
    assert problems == []
    page.context.close()


def test_images_of_a_recorded_run_are_shown_in_the_frame(browser: Browser, tmp_path: Path) -> None:
    run = echoscope.init("Seen", folder=tmp_path)
    attempt = run.trajectory(prompt="Play.", iteration=1)
    attempt.turn(state="a frame", images=image_file(84, 84), response="up")
    attempt.finish(success=True)
    page, frame, problems = displayed(browser, echoscope.player(tmp_path, trajectory=attempt.key))
    image = frame.get_by_role("img", name="Observation of turn 1")
    expect(image).to_have_class("small")
    box = image.bounding_box()
    assert box is not None
    assert box["width"] == box["height"] == 168
    assert problems == []
    page.context.close()
