"""The first five minutes with the product as an animated picture of two minutes, with captions and a pointer.

The live page shows a recorded run as if it were training: its journal is sent line by line, at the pace of its times.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from bench.pictures.screenshots import Trajectory, fatal_position
from webapp.trajectories.render.text import choose

NAME = "tour"
WINDOW = (1280, 760)
SIZE = (960, 570)
BAND = 42
"""Height of the caption below the window."""
FRAMES_PER_SECOND = 5
MAX_BYTES = 3_000_000
QUALITIES = (72, 60, 48, 36)
LIVE_SECONDS = 26
POINTER = ((0, 0), (0, 17), (4, 13), (7, 20), (10, 19), (7, 12), (12, 12))
"""Outline of an arrow with its tip at the origin, in pixels of the picture."""
BAND_COLOUR, TEXT_COLOUR = "#1c1b18", "#f4f1ea"


@dataclass(frozen=True)
class Scenery:
    """What the tour shows: slug of the finished run, a lost trajectory, and one of a puzzle that was learnt."""

    run: str
    lost: Trajectory
    learned: Trajectory


class Recorder:
    """Takes pictures of a page at regular times while it is used."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.frames: list[Image.Image] = []
        self.times: list[float] = []
        self._caption = ""
        self._pointer = (WINDOW[0] * 0.6, WINDOW[1] * 0.5)
        self._last = b""
        self._until = 0.0

    def say(self, caption: str) -> None:
        """Change the caption of the following frames."""
        self._caption = caption

    def hold(self, seconds: float) -> None:
        """Record the page for that long."""
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            self._take(now)
            time.sleep(max(0.0, now + 1 / FRAMES_PER_SECOND - time.monotonic()))
        self._until = time.monotonic()

    def open(self, path: str, wait: str) -> None:
        """Open a page; the recording pauses until the selector is visible."""
        before = time.monotonic()
        self.page.goto(path)
        self.page.locator(wait).first.wait_for(timeout=60_000)
        self.forget(time.monotonic() - before)

    def point(self, selector: str) -> None:
        """Move the pointer to an element within half a second."""
        element = self.page.locator(selector).first
        element.scroll_into_view_if_needed()
        box = element.bounding_box()
        target = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        start, began = self._pointer, time.monotonic()
        while (share := (time.monotonic() - began) / 0.6) < 1:
            eased = share * share * (3 - 2 * share)
            x, y = (a + (b - a) * eased for a, b in zip(start, target, strict=True))
            self._pointer = (x, y)
            self.page.mouse.move(*self._pointer)
            self._take(time.monotonic())
        self._pointer = target
        self.page.mouse.move(*target)

    def click(self, selector: str, wait: str = "") -> None:
        """Point at an element and click it; with `wait`, the recording pauses until that selector is visible."""
        self.point(selector)
        self.hold(0.3)
        before = time.monotonic()
        self.page.mouse.click(*self._pointer)
        if wait:
            self.page.locator(wait).first.wait_for(timeout=60_000)
            self.forget(time.monotonic() - before)

    def forget(self, seconds: float) -> None:
        """Leave out a time in which nothing was shown."""
        self.times = [taken + seconds for taken in self.times]

    def _take(self, now: float) -> None:
        png = self.page.screenshot()
        look = png + self._caption.encode() + str(self._pointer).encode()
        if look == self._last:
            return
        self._last = look
        self.frames.append(framed(Image.open(BytesIO(png)).convert("RGB"), self._caption, self._pointer))
        self.times.append(now)

    def durations(self) -> list[int]:
        """Return the milliseconds for which each frame is shown."""
        ends = [*self.times[1:], self._until]
        return [max(40, round(1000 * (end - taken))) for taken, end in zip(self.times, ends, strict=True)]


def framed(window: Image.Image, caption: str, pointer: tuple[float, float]) -> Image.Image:
    """Return a frame: the window at the size of the picture with a pointer, and the caption below it."""
    frame = Image.new("RGB", (SIZE[0], SIZE[1] + BAND), BAND_COLOUR)
    frame.paste(window.resize(SIZE, Image.Resampling.LANCZOS))
    draw = ImageDraw.Draw(frame)
    scale = SIZE[0] / WINDOW[0]
    tip = (pointer[0] * scale, pointer[1] * scale)
    draw.polygon([(tip[0] + x, tip[1] + y) for x, y in POINTER], fill="black", outline="white")
    font, text = choose(caption, 19)
    draw.text((SIZE[0] / 2, SIZE[1] + BAND / 2), text, font=font, fill=TEXT_COLOUR, anchor="mm")
    return frame


def paced(journal: Sequence[bytes], send: Callable[[bytes], None], stop: threading.Event) -> None:
    """Send the lines in the order and at the distances of their times, several at once where they are close."""
    began, first = time.monotonic(), json.loads(journal[0])["time"]
    waiting: list[bytes] = []
    for line in journal:
        due = began + json.loads(line)["time"] - first
        if waiting and due > time.monotonic():
            send(b"".join(waiting))
            waiting = []
            if stop.wait(max(0.0, due - time.monotonic())):
                return
        waiting.append(line)
    if waiting and not stop.is_set():
        send(b"".join(waiting))


def walk(recorder: Recorder, live: str, scenery: Scenery) -> None:
    """Use the product as in the first five minutes. `live` is the slug of the run that is training."""
    recorder.open(f"/runs/{live}/", ".board svg")
    recorder.say("make demo opens this page: a small language model is learning Sokoban.")
    recorder.hold(8)
    recorder.say("The board and the thought of one attempt, and a square for every attempt of this iteration.")
    recorder.hold(LIVE_SECONDS - 8)
    recorder.open(f"/t/{scenery.lost['slug']}", ".board svg")
    recorder.say("Every attempt has a page. The arrow keys step through its moves.")
    recorder.hold(3)
    steps = scenery.lost["lost_at"]["turn"] * 2 + 2
    for _ in range(steps):
        recorder.page.keyboard.press("ArrowRight")
        recorder.hold(0.9)
    recorder.page.goto(f"/t/{scenery.lost['slug']}{fatal_position(scenery.lost)}")
    recorder.say("The move that lost it, what the agent thought, and what would have won.")
    recorder.hold(7)
    recorder.open(f"/t/{scenery.learned['slug']}/prompt", "[data-film] .board svg")
    recorder.say("The same puzzle through training: from the first failure to the first success.")
    recorder.hold(9)
    recorder.open(f"/runs/{scenery.run}/evaluation", "[data-exam-play]")
    recorder.say("The puzzles of the evaluation, which the agent never trains on, through training.")
    recorder.hold(3)
    recorder.click("[data-exam-play]")
    recorder.hold(11)
    recorder.open("/echo-trap", ".ready [data-slider]")
    recorder.say("The Echo Trap, recorded: StarPO settles for one thought, StarPO-S keeps learning.")
    recorder.page.locator("[data-play]").evaluate("button => button.click()")
    recorder.hold(24)
    recorder.open(f"/runs/{scenery.run}/", ".result")
    recorder.say("A run ends with its result: success before and after, with the interval of the difference.")
    recorder.hold(7)
    recorder.open("/runs/new", "#launch")
    recorder.say("Launch your own: an environment, a model, and how to learn.")
    recorder.hold(4)
    recorder.click('.env-card[href*="frozen_lake"]', wait='.env-card[aria-current][href*="frozen_lake"]')
    recorder.hold(5)


def save_tour(recorder: Recorder, path: Path, limit: int = MAX_BYTES) -> int:
    """Write the recording in the highest quality that the limit permits. Returns the bytes of the file.

    Raises ValueError if no quality does.
    """
    first, *others = recorder.frames
    for quality in QUALITIES:
        file = BytesIO()
        first.save(
            file,
            "WEBP",
            save_all=True,
            append_images=others,
            duration=recorder.durations(),
            loop=0,
            quality=quality,
            method=4,
            allow_mixed=True,
        )
        if file.tell() <= limit:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.getvalue())
            return file.tell()
    raise ValueError(f"{path.name} has more than {limit:,} bytes in quality {QUALITIES[-1]}")


def save_named(recorder: Recorder, folder: Path, name: str) -> None:
    """Write the recording and print its size and length."""
    file = folder / f"{name}.webp"
    print(f"{file.name}: {save_tour(recorder, file) / 1000:.0f} kB, {sum(recorder.durations()) / 1000:.0f} s")
