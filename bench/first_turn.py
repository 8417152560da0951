"""Time from a fresh clone to the first turn on the screen, stage by stage, and memory of all processes from then on.

    python -m bench.first_turn                       # with the caches of this machine's pip and npm
    python -m bench.first_turn --no-cache            # every package downloaded anew
    python -m bench.first_turn --commits v0.1 HEAD   # several commits, one after the other, in the same run

Clones the repository into a temporary folder, runs `make demo` there, logs in by the printed link in a headless
Chromium, watches memory while the run trains, then stops and removes everything.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil
from playwright.sync_api import sync_playwright

from bootstrap.browser import find
from bootstrap.packages import ROOT
from trainer.studies import machine
from webapp.services.addresses import free_port

START_TIMEOUT = 1800.0
DONE = re.compile(r"✓ (.+?)  ([\d.]+) s")
LINK = re.compile(r"(http\S+/welcome/\S+)")
STOP_SECONDS = 30.0
AFTER_INSTALLATION = "Creating the database"
MIB = 2**20


@dataclass(frozen=True)
class FirstTurn:
    """What a fresh clone of one commit took."""

    stages: list[tuple[str, float]]
    """Title and seconds, in order."""
    memory: int
    """Largest memory of all processes together, in bytes. Shared pages count once."""
    processes: int

    @property
    def seconds(self) -> float:
        return sum(seconds for _, seconds in self.stages)

    @property
    def start(self) -> float:
        """Seconds after the installation: from the creation of the database on."""
        titles = [title for title, _ in self.stages]
        return sum(seconds for _, seconds in self.stages[titles.index(AFTER_INSTALLATION) :])


class DidNotStart(Exception):
    """`make demo` ended or timed out. The message is the end of its output."""


def environment(folder: Path, cached: bool) -> dict[str, str]:
    """Environment of a fresh shell: nothing of this project, a free port, optionally no caches."""
    ours = ("DATABASE_URL", "REDIS_URL", "DJANGO_", "ECHOSCOPE_", "VIRTUAL_ENV", "PYTHONPATH", "OMP_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    env["PATH"] = os.pathsep.join(part for part in env["PATH"].split(os.pathsep) if not part.startswith(sys.prefix))
    env |= {"ECHOSCOPE_PORT": str(free_port()), "PYTHONUNBUFFERED": "1"}
    return env if cached else env | {"PIP_NO_CACHE_DIR": "1", "npm_config_cache": str(folder / "npm-cache")}


def wait_for_link(terminal: Path, process: subprocess.Popen[bytes], started: float) -> tuple[str, float]:
    """The link printed by `make demo`, and the seconds until then."""
    while True:
        text = terminal.read_text(encoding="utf-8")
        if "Ctrl-C stops everything" in text:  # the last line, below the link
            if (link := LINK.search(text)) is None:
                raise DidNotStart(f"it printed no link to log in by:\n{text[-3000:]}")
            return link[1], time.monotonic() - started
        if process.poll() is not None or time.monotonic() - started > START_TIMEOUT:
            raise DidNotStart(text[-3000:])
        time.sleep(0.1)


def look(link: str, screenshot: Path | None) -> tuple[float, float]:
    """Seconds from opening the browser to the run's page, and from there to its first turn."""
    with sync_playwright() as playwright:
        started = time.monotonic()
        chromium = playwright.chromium.launch(executable_path=find(), args=["--no-sandbox", "--disable-gpu"])
        try:
            page = chromium.new_page()
            page.set_default_timeout(START_TIMEOUT * 1000)
            page.goto(link)
            page.get_by_role("button", name="Log in as").click()
            if not re.search(r"/runs/\w+/", urlsplit(page.url).path):
                page.locator('a[href*="/runs/"]:not([href$="/new"])').first.click()
            page.locator("[data-stage]").wait_for()
            opened = time.monotonic()
            page.locator("[data-stage] .turn").first.wait_for(state="visible")
            seen = time.monotonic()
            if screenshot:
                page.screenshot(path=screenshot)
        finally:
            chromium.close()
    return opened - started, seen - opened


def end(process: subprocess.Popen[bytes]) -> None:
    """Stop `make demo` and its children as Ctrl-C does: signal the whole process group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def memory_of(process: subprocess.Popen[bytes]) -> tuple[int, int]:
    """Bytes that a process and its descendants take at this moment (proportional set size), and their number."""
    total = counted = 0
    for part in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.Error):
            total += part.memory_full_info().pss
            counted += 1
    return total, counted


def watch_memory(process: subprocess.Popen[bytes], seconds: float) -> tuple[int, int]:
    """The largest of the samples of `memory_of`, one a second."""
    deadline = time.monotonic() + seconds
    largest = memory_of(process)
    while time.monotonic() < deadline:
        time.sleep(1.0)
        largest = max(largest, memory_of(process))
    return largest


def measure(commit: str, cached: bool, watched: float, screenshot: Path | None = None) -> FirstTurn:
    """Clone a commit, start its demo, and watch its memory for `watched` seconds after the first turn.

    Raises:
        DidNotStart: the demo ended or timed out.
        subprocess.CalledProcessError: there is no such commit.
    """
    folder = Path(tempfile.mkdtemp(prefix="echoscope-first-turn-"))
    terminal = folder / "terminal.txt"
    try:
        started = time.monotonic()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder / "echoscope")], check=True)
        subprocess.run(["git", "checkout", "--quiet", commit], cwd=folder / "echoscope", check=True)
        cloned = time.monotonic() - started
        with terminal.open("wb") as output:
            process = subprocess.Popen(
                ["make", "demo", "ARGS=--no-browser"],
                cwd=folder / "echoscope",
                env=environment(folder, cached),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            link, ready = wait_for_link(terminal, process, started)
            steps = [(title, float(seconds)) for title, seconds in DONE.findall(terminal.read_text(encoding="utf-8"))]
            opened, seen = look(link, screenshot)
            memory, processes = watch_memory(process, watched)
        finally:
            end(process)
        rest = ready - cloned - sum(seconds for _, seconds in steps)
        stages = [
            ("Cloning", cloned),
            *steps,
            ("Everything between these lines", rest),
            ("Opening the browser, signing in, the run's page", opened),
            ("Until the first turn is visible", seen),
        ]
        return FirstTurn(stages, memory, processes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def report(name: str, found: FirstTurn) -> None:
    print(f"{name}\n")
    for title, seconds in [*found.stages, ("In all", found.seconds)]:
        print(f"{seconds:8.1f} s  {title}")
    print(f"{found.memory / MIB:8.0f} MiB in {found.processes} processes\n", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Seconds from a fresh clone to the first turn, and memory from then.")
    parser.add_argument("--commits", nargs="+", default=["HEAD"], metavar="COMMIT", help="what to clone (HEAD)")
    parser.add_argument("--memory-seconds", type=float, default=60.0, help="how long memory is watched (60)")
    parser.add_argument("--no-cache", action="store_true", help="disable the caches of pip and npm")
    parser.add_argument("--screenshot", type=Path, metavar="PATH", help="save a screenshot of the first turn")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the results to this file")
    options = parser.parse_args()
    words = machine.describe()
    print(f"{words}\n{'without' if options.no_cache else 'with'} caches of pip and npm\n")
    results: list[FirstTurn] = []
    for commit in options.commits:
        try:
            found = measure(commit, not options.no_cache, options.memory_seconds, options.screenshot)
        except DidNotStart as error:
            print(f"`make demo` of {commit} did not start; end of its output:\n{error}", file=sys.stderr)
            return 1
        report(commit, found)
        results.append(found)
    for commit, found in zip(options.commits[1:], results[1:], strict=True):
        first = results[0]
        print(
            f"{commit} against {options.commits[0]}: {found.memory / first.memory:.2f} x the memory, "
            f"{found.start / first.start:.2f} x the time after the installation"
        )
    if options.json:
        figures = {
            "machine": words,
            "cached": not options.no_cache,
            "commits": {
                commit: {"stages": dict(found.stages), "memory_bytes": found.memory, "processes": found.processes}
                for commit, found in zip(options.commits, results, strict=True)
            },
        }
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
