"""Chromium for the browser tests: the machine's own, else Debian's, else Playwright's."""

from __future__ import annotations

import os
import shutil
import subprocess

from bootstrap.packages import PYTHON
from bootstrap.progress import SetupError, run, step

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
PLAYWRIGHT = "from playwright.sync_api import sync_playwright as s\nwith s() as p: print(p.chromium.executable_path)"
ABSENT = """\
The browser tests need Chromium, and it could not be installed. Install it (Debian, Ubuntu: sudo apt-get install
chromium; macOS: brew install --cask chromium; or `.venv/bin/python -m playwright install chromium`), or set its path:
CHROMIUM=/path/to/chrome make test. `make test-fast` runs all other tests."""


def find() -> str | None:
    """Path of Chromium or Chrome: from CHROMIUM, on the PATH, or installed by Playwright."""
    if path := os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, (*PROGRAMS, MAC))), None):
        return path
    done = subprocess.run([str(PYTHON), "-c", PLAYWRIGHT], capture_output=True, text=True)
    return shutil.which(done.stdout.strip())


def ensure() -> str:
    """Path of Chromium, installed first if missing. Raises SetupError if that fails."""
    if path := find():
        return path
    with step("Installing Chromium for the browser tests") as line:
        if shutil.which("apt-get") and os.geteuid() == 0:
            for words in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
                run(["apt-get", *words], line, {**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
        if not find():
            run([str(PYTHON), "-m", "playwright", "install", "chromium"], line)
    if path := find():
        return path
    raise SetupError(ABSENT)
