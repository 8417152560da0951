"""Take the pictures of README and documentation.

    python -m bench.pictures                                # trains a run, takes all pictures into docs/images
    python -m bench.pictures --keep-run DIR                 # keeps its journal
    python -m bench.pictures --journal var/runs/RUN         # shows that run (of `make demo`, say) instead of training
    python -m bench.pictures --only player filmstrip        # some of them
    python -m bench.pictures --only recorded tool-call taxi # those that need no trained run: a minute
    python -m bench.pictures --only trap trap-curves        # trains bandit-starpo-trap, or shows the run of --trap
    python -m bench.pictures --only echo-trap               # the recorded Echo Trap as an animation
    python -m bench.pictures --only tour --journal DIR      # the first five minutes, in two
    python -m bench.pictures --only branching branches      # trains eight iterations, asks about a lost attempt

It starts its own instance of the product, trains the pocket policy on two cores (a quarter of an hour, same settings
and seed), and takes each picture in light and dark at twice the pixels of the window. The live page shows the run's
journal up to the middle of a rollout. Runs of other trainers are recorded by recorded_runs.py.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from bench.pictures import branch_tour, film, tour
from bench.pictures.compress import save
from bench.pictures.recorded_runs import record_calls, record_game, sent
from bench.pictures.screenshots import (
    FOREIGN,
    SCREENSHOTS,
    TAXI,
    THEMES,
    TRAP,
    Screenshot,
    Trajectory,
    beginning,
    learned_puzzle,
    most_telling_loss,
)
from bench.soak.instance import Instance
from trainer.journal.protocol import JOURNAL_FILE

OUT = Path(__file__).resolve().parents[2] / "docs" / "images"
PRESET = "sokoban-starpo_s-pocket"
TITLE = "Sokoban, StarPO-S, pocket policy"
OVERRIDES = {"evaluation.every": 8}
TRAP_PRESET = "bandit-starpo-trap"
TRAP_TITLE = "Bandit, StarPO, in the Echo Trap"
LIVE_AT = 8
"""Iteration with the rollout in which the live page is taken."""
TRAINING_TIMEOUT = 2400.0
WIDTH, SCALE = 1440, 2
LIVE = Screenshot("live", lambda run, lost, learned: f"/runs/{run}/", height=960, wait=".board svg")
RECORD = {"recorded": record_game, "tool-call": record_calls}
"""Picture → function that records its run."""
SETTLE_MS = 900
"""Time for fonts, charts and transitions."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Take the pictures. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    trained = ["live", *(screenshot.name for screenshot in SCREENSHOTS)]
    trapped = [screenshot.name for screenshot in TRAP]
    asked = [branch_tour.NAME, branch_tour.PICTURE]
    names = [*trained, tour.NAME, *asked, *trapped, *RECORD, TAXI.name, film.NAME]
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the pictures (default: docs/images)")
    parser.add_argument("--journal", type=Path, help="folder of a run to show instead of training one")
    parser.add_argument("--trap", type=Path, help="folder of a collapsed run to show instead of training one")
    parser.add_argument("--keep-run", type=Path, help="folder for a copy of the trained run's journal")
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="pictures to take (default: all)")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="echoscope-pictures-") as folder:
        instance = Instance(Path(folder) / "home", slots=1)
        instance.start()
        try:
            with _browser() as browser:
                camera = Camera(browser, instance, options.out)
                _take_foreign(instance, camera, Path(folder), options.only)
                if film.NAME in options.only:
                    film.film_replay(browser, instance.url, options.out)
                if set(options.only) & set(trapped):
                    _take_trapped(instance, camera, options)
                if set(options.only) & set(asked):
                    _take_branches(instance, camera, options)
                if set(options.only) & {*trained, tour.NAME}:
                    _take_trained(instance, camera, options)
        finally:
            instance.stop()
    print(f"{time.monotonic() - began:.0f} s")
    return 0


def _take_trapped(instance: Instance, camera: Camera, options: argparse.Namespace) -> None:
    run = _import(instance, options.trap, TRAP_TITLE) if options.trap else _train(instance, TRAP_PRESET, TRAP_TITLE, {})
    for screenshot in TRAP:
        if screenshot.name in options.only:
            camera.take(screenshot.name, screenshot.path(run, {}, {}), screenshot)


def _take_trained(instance: Instance, camera: Camera, options: argparse.Namespace) -> None:
    if options.journal:
        run = _import(instance, options.journal, TITLE)
    else:
        run = _train(instance, PRESET, TITLE, OVERRIDES)
    journal = (options.journal or instance.home / "runs" / run) / JOURNAL_FILE
    if "live" in options.only:
        camera.take("live", f"/runs/{_unfinished(instance, journal)}/", LIVE)
    lost = most_telling_loss(_trajectories(instance, run, "train"))
    learned = learned_puzzle(_trajectories(instance, run, "eval"))
    for screenshot in SCREENSHOTS:
        if screenshot.name in options.only:
            camera.take(screenshot.name, screenshot.path(run, lost, learned), screenshot)
    if tour.NAME in options.only:
        _film_tour(instance, camera, journal.read_bytes(), tour.Scenery(run, lost, learned))
    if options.keep_run:
        options.keep_run.mkdir(parents=True, exist_ok=True)
        shutil.copy2(journal, options.keep_run)


def _take_branches(instance: Instance, camera: Camera, options: argparse.Namespace) -> None:
    run = _train(instance, branch_tour.PRESET, branch_tour.TITLE, branch_tour.OVERRIDES)
    stories = branch_tour.find_stories(
        _trajectories(instance, run, "train"),
        lambda slug: instance.request("GET", f"/trajectories/{slug}")["turns"],
    )
    story = branch_tour.choose_story(
        stories, lambda slug: branch_tour.ask(instance, slug, kind="value", samples=branch_tour.VALUE_SAMPLES)
    )

    def ask_rest() -> None:
        slug = story.lost["slug"]
        branch_tour.ask(instance, slug, kind="thoughts", samples=branch_tour.THOUGHT_SAMPLES)
        branch_tour.ask(instance, slug, kind="branch", turn=story.misread - 1, samples=8)

    if branch_tour.NAME in options.only:
        page = camera.open_page(tour.WINDOW)
        recorder = tour.Recorder(page)
        branch_tour.walk(recorder, story, ask_rest)
        page.close()
        tour.save_named(recorder, camera.out, branch_tour.NAME)
    else:
        ask_rest()
    if branch_tour.PICTURE in options.only:
        camera.take(branch_tour.PICTURE, branch_tour.PANEL.path(run, story.lost, {}), branch_tour.PANEL)


def _take_foreign(instance: Instance, camera: Camera, folder: Path, names: Sequence[str]) -> None:
    """Take pictures of runs of other trainers, and of an environment of another package."""
    for screenshot in FOREIGN:
        if screenshot.name in names:
            RECORD[screenshot.name](folder / screenshot.name)
            trajectory = sent(folder / screenshot.name, instance.url, instance.token)
            camera.take(screenshot.name, f"/t/{trajectory}{screenshot.path('', {}, {})}", screenshot)
    if TAXI.name in names:
        camera.take(TAXI.name, TAXI.path("", {}, {}), TAXI)


class Camera:
    """Takes pictures of pages as a signed-in user, once in each theme."""

    def __init__(self, browser: Any, instance: Instance, out: Path) -> None:
        name, _, value = instance.cookie.partition("=")
        self.out = out
        self._browser, self._url = browser, instance.url
        self._cookies = [{"name": name, "value": value, "url": instance.url}]
        self._contexts = {}
        for theme in THEMES:
            context = browser.new_context(
                base_url=instance.url,
                viewport={"width": WIDTH, "height": LIVE.height},
                device_scale_factor=SCALE,
                color_scheme=theme,
                reduced_motion="reduce",
            )
            context.add_cookies(self._cookies)
            self._contexts[theme] = context

    def open_page(self, window: tuple[int, int]) -> Any:
        """Return a page with motion, in one pixel per pixel, for an animation."""
        context = self._browser.new_context(
            base_url=self._url, viewport={"width": window[0], "height": window[1]}, color_scheme="light"
        )
        context.add_cookies(self._cookies)
        return context.new_page()

    def take(self, name: str, path: str, screenshot: Screenshot) -> None:
        """Write the picture of a page in both themes; both pages are opened first, to show the same moment."""
        pages = {theme: context.new_page() for theme, context in self._contexts.items()}
        for page in pages.values():
            page.set_viewport_size({"width": WIDTH, "height": screenshot.height})
            page.goto(path)
        for number, page in enumerate(pages.values()):
            after = screenshot.stored and number > 0
            if after:
                page.reload()
            page.locator(screenshot.wait).first.wait_for(timeout=30_000)
            for key in () if after else screenshot.keys:
                page.keyboard.press(key)
            page.mouse.move(0, 0)
            page.wait_for_timeout(SETTLE_MS)
        for theme, page in pages.items():
            part = page.locator(screenshot.part).first if screenshot.part else None
            png = part.screenshot() if part is not None and part.count() else page.screenshot()
            file = self.out / f"{name}-{theme}.webp"
            print(f"{file.name}: {save(png, file) / 1000:.0f} kB")
            page.close()


@contextmanager
def _browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    from tests.suite.browser import find

    path = find()
    if path is None:
        raise SystemExit("There is no Chromium here: `make test` installs one, CHROMIUM names one.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


def _train(instance: Instance, preset: str, title: str, overrides: dict[str, Any]) -> str:
    """Train a run to its end. Returns its slug."""
    run = str(instance.request("POST", "/runs", {"preset": preset, "overrides": overrides})["slug"])
    instance.request("PATCH", f"/runs/{run}", {"title": title})
    deadline = time.monotonic() + TRAINING_TIMEOUT
    while (now := instance.request("GET", f"/runs/{run}"))["state"] != "finished":
        if now["state"] in ("failed", "cancelled", "stopped"):
            raise RuntimeError(f"the run is {now['state']}: {now['failure']}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"the run has not finished within {TRAINING_TIMEOUT:.0f} s")
        time.sleep(0.5)
    return run


def _import(instance: Instance, folder: Path, title: str) -> str:
    """Show a kept journal. Returns the slug of its run."""
    return _push(instance, (folder / JOURNAL_FILE).read_bytes(), title, growing=False)


def _unfinished(instance: Instance, journal: Path) -> str:
    """Show the journal up to the middle of a rollout, as if the run continued. Returns the run's slug."""
    return _push(instance, beginning(journal.read_bytes(), LIVE_AT), TITLE, growing=True)


def _push(instance: Instance, content: bytes, title: str, *, growing: bool) -> str:
    answer = httpx.post(
        f"{instance.url}/api/runs/import?growing={str(growing).lower()}",
        content=content,
        headers={"Authorization": f"Bearer {instance.token}", "Content-Type": "application/x-ndjson"},
        timeout=120,
    )
    answer.raise_for_status()
    run = str(answer.json()["slug"])
    _send_rest(instance, run, content, answer.json()["journal"]["offset"], growing=growing)
    instance.request("PATCH", f"/runs/{run}", {"title": title})
    return run


def _send_rest(instance: Instance, run: str, content: bytes, offset: int, *, growing: bool) -> None:
    """Send the rest, which a request did not read because its time was over."""
    while offset < len(content):
        answer = httpx.put(
            f"{instance.url}/api/runs/{run}/journal?offset={offset}&growing={str(growing).lower()}",
            content=content[offset:],
            headers={"Authorization": f"Bearer {instance.token}", "Content-Type": "application/x-ndjson"},
            timeout=120,
        )
        answer.raise_for_status()
        offset = answer.json()["offset"]


def _film_tour(instance: Instance, camera: Camera, journal: bytes, scenery: tour.Scenery) -> None:
    """Write the animation of the first five minutes. The run of its live page goes on while it is filmed."""
    shown = beginning(journal, LIVE_AT)
    run = _push(instance, shown, TITLE, growing=True)
    sent, stop = len(shown), threading.Event()

    def send(lines: bytes) -> None:
        nonlocal sent
        sent += len(lines)
        _send_rest(instance, run, journal[:sent], sent - len(lines), growing=True)

    lines = journal[sent:].splitlines(keepends=True)
    feed = threading.Thread(target=tour.paced, args=(lines, send, stop))
    page = camera.open_page(tour.WINDOW)
    recorder = tour.Recorder(page)
    feed.start()
    try:
        tour.walk(recorder, run, scenery)
    finally:
        stop.set()
        feed.join()
        page.close()
    tour.save_named(recorder, camera.out, tour.NAME)


def _trajectories(instance: Instance, run: str, split: str) -> list[Trajectory]:
    trajectories: list[Trajectory] = []
    cursor = ""
    while True:
        page = instance.request("GET", f"/runs/{run}/trajectories?split={split}&limit=100{cursor}")
        trajectories += page["items"]
        if page["next_cursor"] is None:
            return trajectories
        cursor = f"&cursor={page['next_cursor']}"
