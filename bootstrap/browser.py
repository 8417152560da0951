"""Chromium for the browser tests: the machine's own, else Debian's, else Playwright's."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from bootstrap import machine
from bootstrap.packages import LOG, PYTHON
from bootstrap.progress import SetupError, run, step

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAC = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")


def find() -> str | None:
    """Path of Chromium or Chrome: from CHROMIUM, on the PATH, or installed by Playwright."""
    named = os.environ.get("CHROMIUM")
    if named:
        return named
    for name in NAMES:
        path = shutil.which(name)
        if path:
            return path
    return str(MAC) if MAC.exists() else _playwrights()


def _playwrights() -> str | None:
    code = "from playwright.sync_api import sync_playwright as s\nwith s() as p: print(p.chromium.executable_path)"
    process = subprocess.run([str(PYTHON), "-c", code], capture_output=True, text=True)
    path = process.stdout.strip()
    return path if path and Path(path).exists() else None


def ensure() -> str:
    """Path of Chromium, installed first if missing. Raises SetupError if that fails."""
    chromium = find()
    if chromium:
        return chromium
    if machine.is_debian() and machine.is_root():
        with step("Installing Chromium for the browser tests") as line:
            quiet = {"DEBIAN_FRONTEND": "noninteractive"}
            run(["apt-get", "update"], LOG, line, env=quiet)
            run(["apt-get", "install", "-y", "--no-install-recommends", "chromium"], LOG, line, env=quiet)
        chromium = find()
    if not chromium:
        with step("Installing Playwright's Chromium for the browser tests") as line:
            run([str(PYTHON), "-m", "playwright", "install", "chromium"], LOG, line)
        chromium = find()
    if not chromium:
        raise SetupError(
            "The browser tests need Chromium, and it could not be installed. Install it (Debian, Ubuntu: sudo apt-get "
            "install chromium; macOS: brew install --cask chromium; or `.venv/bin/python -m playwright install "
            "chromium`), or set its path: CHROMIUM=/path/to/chrome make test. `make test-fast` runs all other tests."
        )
    return chromium
