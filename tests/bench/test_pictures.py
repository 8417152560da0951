"""Pictures of the documentation: which trajectories are shown, sizes of the files, and that those shown exist."""

from __future__ import annotations

import json
import random
import re
import threading
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from bench.pictures import branch_tour, film, tour
from bench.pictures.compress import MAX_BYTES, save
from bench.pictures.screenshots import beginning, fatal_position, learned_puzzle, most_telling_loss
from tests.webapp import recorded_journal
from trainer.config.run import RunConfig
from trainer.journal.protocol import JOURNAL_FILE

ROOT = Path(__file__).parents[2]
LIMIT = 300_000
ANIMATIONS = {film.NAME: film.MAX_BYTES, tour.NAME: tour.MAX_BYTES, branch_tour.NAME: tour.MAX_BYTES}
PICTURE = re.compile(r"""(?:src|srcset)="([^"]+\.(?:webp|png|svg))"|!\[[^\]]*\]\(([^)]+\.(?:webp|png|svg))\)""")


def trajectory(key: str, **values: Any) -> dict[str, Any]:
    base = {"key": key, "iteration": 1, "split": "train", "suite": "", "group": 0, "status": "failed", "lost_at": None}
    return base | values


def test_the_loss_of_the_player_happened_in_the_middle() -> None:
    early = trajectory("a", lost_at={"turn": 0, "action": 0})
    middle = trajectory("b", lost_at={"turn": 2, "action": 1})
    late = trajectory("c", lost_at={"turn": 4, "action": 0}, iteration=9)
    assert most_telling_loss([trajectory("d"), early, late, middle]) is middle
    assert fatal_position(middle) == "?turn=3&action=2"
    with pytest.raises(LookupError, match="train for more"):
        most_telling_loss([trajectory("d")])


def test_the_questions_are_about_an_attempt_that_misread_something_before_it_was_lost() -> None:
    early = trajectory("a", slug="a", lost_at={"turn": 0, "action": 0})
    right = trajectory("b", slug="b", lost_at={"turn": 2, "action": 1}, iteration=3)
    misread = trajectory("c", slug="c", lost_at={"turn": 2, "action": 1})
    place = {"kind": "box_position", "true": False, "cells": [[1, 1]], "actual_cells": [[1, 2]]}
    true = place | {"true": True}
    turns = {
        "b": [{"turn": 0, "claims": [true]}, {"turn": 1}, {"turn": 2}, {"turn": 3, "claims": [place]}],
        "c": [{"turn": 0, "claims": [place | {"cells": None}]}, {"turn": 1, "claims": [place]}],
    }
    stories = list(branch_tour.find_stories([early, right, misread], turns.__getitem__))
    assert [(story.lost, story.misread) for story in stories] == [(misread, 2)]
    decisive = {"result": {"decisive": 1, "turns": [{"fall": 0.0}, {"fall": 0.5}]}}
    assert branch_tour.choose_story(stories, {"c": decisive}.__getitem__) is stories[0]
    with pytest.raises(LookupError, match="train for more"):
        branch_tour.choose_story(stories, lambda slug: {"result": {"decisive": None}})


def test_the_film_shows_a_puzzle_that_was_learned_and_stayed_solved() -> None:
    def puzzle(group: int, *solved: bool) -> list[dict[str, Any]]:
        return [
            trajectory(
                f"{group}-{at}",
                split="eval",
                suite="s",
                group=group,
                iteration=at,
                status="success" if yes else "failed",
            )
            for at, yes in enumerate(solved)
        ]

    found = [*puzzle(0, True, True, True), *puzzle(1, False, True, False, True), *puzzle(2, False, False, True, True)]
    random.Random(0).shuffle(found)
    assert learned_puzzle(found)["key"] == "2-3"
    with pytest.raises(LookupError):
        learned_puzzle([trajectory("a")])


def test_the_live_page_shows_a_run_in_the_middle_of_a_rollout(tmp_path: Path) -> None:
    config = RunConfig(iterations=3)
    config.rollout.groups = config.rollout.group_size = 2
    whole = (recorded_journal.write(tmp_path / "run", config, 3) / JOURNAL_FILE).read_bytes()
    cut = beginning(whole, 2)
    assert whole.startswith(cut)
    events = [json.loads(line) for line in cut.splitlines()]
    assert events[-1]["type"] == "turn"
    assert [event["iteration"] for event in events if event["type"] == "metrics"] == [1]
    assert beginning(whole, 9) == whole


def test_a_picture_is_made_small_enough(tmp_path: Path) -> None:
    noise = Image.frombytes("RGB", (300, 200), random.Random(0).randbytes(300 * 200 * 3))
    file = BytesIO()
    noise.save(file, "PNG")
    size = save(file.getvalue(), tmp_path / "deep" / "noise.webp", limit=12_000)
    assert size == (tmp_path / "deep" / "noise.webp").stat().st_size <= 12_000
    assert MAX_BYTES < LIMIT


def test_an_animation_has_every_frame_or_is_refused(tmp_path: Path) -> None:
    frames = [Image.frombytes("RGB", (60, 40), random.Random(seed).randbytes(60 * 40 * 3)) for seed in range(4)]
    path = tmp_path / "film.webp"
    assert film.save_film(frames, path, limit=60_000) == path.stat().st_size
    with Image.open(path) as image:
        assert getattr(image, "n_frames", 1) == 4
    with pytest.raises(ValueError, match="with 64 colours"):
        film.save_film(frames, tmp_path / "large.webp", limit=100)
    assert not (tmp_path / "large.webp").exists()


def test_the_filmed_run_gets_its_lines_in_their_order_until_it_is_stopped() -> None:
    lines = [json.dumps({"time": at}).encode() + b"\n" for at in (5.0, 5.0, 5.2, 900.0)]
    stop, sent = threading.Event(), []

    def send(part: bytes) -> None:
        sent.append(part)
        if len(sent) == 2:
            stop.set()

    tour.paced(lines, send, stop)
    assert sent == [lines[0] + lines[1], lines[2]]


def test_a_frame_of_the_tour_has_the_window_with_a_pointer_and_the_caption_below() -> None:
    frame = tour.framed(Image.new("RGB", tour.WINDOW, "white"), "What is seen", (640, 380))
    assert frame.size == (tour.SIZE[0], tour.SIZE[1] + tour.BAND)
    assert frame.getpixel((5, 5)) == (255, 255, 255)
    assert frame.crop((470, 270, 500, 310)).getextrema()[0] == (0, 255), "a black pointer with a white edge"
    caption = frame.crop((0, tour.SIZE[1], *frame.size))
    assert len(caption.getcolors() or []) > 10, "text on the band"


@pytest.mark.parametrize(
    "document", ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md"))]
)
def test_pictures_of_the_documentation_exist_and_are_small(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    for match in PICTURE.finditer(text):
        address = match[1] or match[2]
        if not address.startswith("http"):
            path = (ROOT / document).parent / address
            assert path.is_file(), address
            limit = ANIMATIONS.get(re.split(r"-(?:light|dark)", path.stem)[0], LIMIT)
            assert path.stat().st_size <= limit, address
    for tag in re.findall(r"<img[^>]*>", text):
        assert re.search(r'alt="[^"]{20,}"', tag), f"{tag} needs an alternative text"
