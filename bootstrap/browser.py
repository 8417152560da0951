"""A Chromium for the browser tests: the machine's own, else Debian's, else Playwright's."""

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
    """Path of a Chromium or Chrome: CHROMIUM, the machine's, or the one Playwright keeps."""
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
    asked = subprocess.run([str(PYTHON), "-c", code], capture_output=True, text=True)
    path = asked.stdout.strip()
    return path if path and Path(path).exists() else None


def ensure() -> str:
    """Its path, installing it first where it is missing. Raises SetupError saying what is needed."""
    found = find()
    if found:
        return found
    if machine.is_debian() and machine.is_root():
        with step("Installing Chromium for the browser tests") as line:
            quiet = {"DEBIAN_FRONTEND": "noninteractive"}
            run(["apt-get", "update"], LOG, line, env=quiet)
            run(["apt-get", "install", "-y", "--no-install-recommends", "chromium"], LOG, line, env=quiet)
        found = find()
    if not found:
        with step("Installing Playwright's Chromium for the browser tests") as line:
            run([str(PYTHON), "-m", "playwright", "install", "chromium"], LOG, line)
        found = find()
    if not found:
        raise SetupError(
            "The browser tests need Chromium, and it could not be installed. Install it (Debian, Ubuntu: sudo apt-get "
            "install chromium; macOS: brew install --cask chromium; or `.venv/bin/python -m playwright install "
            "chromium`), or name one: CHROMIUM=/path/to/chrome make test. All other tests run with `make test-fast`."
        )
    return found
