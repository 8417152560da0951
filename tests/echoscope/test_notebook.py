"""The player of notebooks: its sources, its frame in a real browser, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, FrameLocator, Page, expect

import echoscope
from echoscope.models import Share, Trajectory, TrajectoryDetail
from tests.webapp import recorded_journal as recorded
from trainer.config.files import load_preset, with_overrides
from trainer.journal.protocol import JOURNAL_FILE
from trainer.journal.writer import Journal

Record = dict[str, Any]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded") / "run"
    config = with_overrides(load_preset("sokoban-pocket"), ["rollout.groups=2", "rollout.group_size=3", "iterations=1"])
    log = Journal(folder)
    log.write(recorded.started(config))
    for event in recorded.iteration(config, 1, 0.3):
        log.write(event)
    log.close()
    return folder


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


def test_a_share_link_becomes_the_embedded_player() -> None:
    frame = echoscope.player("https://echoscope.example/s/abc?turn=2&evil=1", theme="dark", action=3, turn=4)
    address = "https://echoscope.example/embed/abc?turn=4&amp;action=3&amp;theme=dark"
    assert f'src="{address}"' in frame._repr_html_()
    assert "evil" not in frame._repr_html_()
    below = echoscope.player("https://example.org/tools/s/abc")._repr_html_()
    assert 'src="https://example.org/tools/embed/abc"' in below
    share = Share.model_construct(token="abc", url="https://echoscope.example/s/abc", trajectory="t")
    assert 'src="https://echoscope.example/embed/abc"' in echoscope.player(share)._repr_html_()
    with pytest.raises(ValueError, match="open its share link instead"):
        frame.save("player.html")


def test_documents_of_exports_and_answers_of_the_api_are_shown_alike(tmp_path: Path) -> None:
    turn = {"turn": 0, "state": "s", "response": "r", "thought": "t", "actions": []}
    board = {"kind": "text", "text": "b"}
    facts = {"environment": "Bandit", "iteration": 3, "success": True, "total_reward": 1.5}
    export = tmp_path / "trajectory.json"
    export.write_text(json.dumps({**facts, "prompt": "p", "board": board, "turns": [turn]}))
    trajectory = Trajectory.model_construct(
        slug="a", status="success", turns=1, **{name: value for name, value in facts.items() if name != "success"}
    )
    detail = TrajectoryDetail.model_construct(
        trajectory=trajectory, seed=1, prompt="p", board=board, hint=None, turns=[turn], marks=[], verdict=None
    )
    from_file, from_api = echoscope.player(str(export)), echoscope.player(detail)
    assert from_file.page == from_api.page
    shown = json.loads(re.search(r'id="data">(.*?)</script>', from_file.page or "", re.S)[1])  # type: ignore[index]
    assert (shown["title"], shown["outcome"]) == ("Bandit, iteration 3", "solved, reward 1.5")
    assert from_file.save(tmp_path / "player.html").read_text() == from_file.page


def test_what_is_no_trajectory_is_refused_with_advice(run_folder: Path, tmp_path: Path) -> None:
    for source, options, message in (
        ("https://echoscope.example/t/abc", {}, "is not a share link"),
        (run_folder, {}, "name one, as in player"),
        (run_folder, {"trajectory": "9-9-9"}, "has no trajectory '9-9-9'"),
        ({"id": "x"}, {}, "it needs `turns`"),
        ({"turns": [{"text": "x"}]}, {}, "it needs `turns`"),
        ({"turns": []}, {"turn": 0}, "count from 1"),
        ({"turns": []}, {"action": 1}, "give turn as well"),
    ):
        with pytest.raises(ValueError, match=message):
            echoscope.player(source, **options)  # type: ignore[arg-type]
    other = tmp_path / "notes.txt"
    other.write_text("hello")
    with pytest.raises(ValueError, match="is not a JSON export of a trajectory"):
        echoscope.player(str(other))
    with pytest.raises(FileNotFoundError):
        echoscope.player(str(tmp_path / "missing.json"))


def test_a_trajectory_that_a_later_attempt_played_again_is_shown_once(tmp_path: Path) -> None:
    group = {
        "type": "group_started",
        "environment": "E",
        "iteration": 1,
        "prompt": "",
        "board": None,
        "members": ["1-0"],
    }
    turns = [{"type": "turn", "trajectory": "1-0", "response": text, "actions": []} for text in ("old", "new")]
    end = {"type": "trajectory_finished", "trajectory": "1-0", "success": False, "total_reward": 0}
    lines = [group, turns[0], end, group, turns[1]]
    journal = tmp_path / "journal.jsonl"
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"type":"turn","trajectory":"1-0"')
    page = echoscope.player(journal, trajectory="1-0").page or ""
    assert '"new"' in page
    assert '"old"' not in page
    assert '"outcome":"not finished"' in page
