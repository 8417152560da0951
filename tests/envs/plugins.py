"""Temporarily installed packages with environments, for this process and its children."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from envs import registry
from tests.patience import SECONDS

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "key-door"


@contextmanager
def offering(folder: Path, **offers: str) -> Iterator[None]:
    """Register environments (name="module:Class") by entry points of a package in the folder."""
    record = folder / "strange_worlds-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: strange-worlds\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in offers.items()]
    (record / "entry_points.txt").write_text("\n".join(["[echoscope.envs]", *lines]) + "\n")
    with importable(folder):
        yield


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Make packages installed into the folder importable, for this process and its children."""
    sys.path.insert(0, str(folder))
    registry._plugins.cache_clear()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        registry._plugins.cache_clear()


def install_example(folder: Path) -> Path:
    """Install docs/examples/key-door with pip, without a network. Returns the folder to put on the path."""
    source = shutil.copytree(EXAMPLE, folder / "source")  # building leaves its traces beside the sources
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
    done = subprocess.run(
        [*command, "--target", str(folder / "installed"), str(source)], capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "installed"
