"""Paths of the shipped pocket checkpoint and of the cache."""

from __future__ import annotations

import os
from pathlib import Path

POCKET_CHECKPOINT = Path(__file__).parent / "policy" / "pocket_checkpoint"
"""The general pocket policy that ships with the project: an ordinary transformers checkpoint."""

POCKET_COURSES = POCKET_CHECKPOINT.with_name("pocket_courses")
"""Pocket policies that were warmed up on a single environment, a folder for each course."""


def shipped_folder(course: str) -> Path:
    """Folder of the pocket policy that ships for a course of the warm-up."""
    return POCKET_CHECKPOINT if course == "general" else POCKET_COURSES / course


def default_cache() -> Path:
    """Cache folder of warmed-up policies: ECHOSCOPE_CACHE, or `echoscope` in the user's cache folder."""
    configured = os.environ.get("ECHOSCOPE_CACHE")
    return Path(configured) if configured else Path.home() / ".cache" / "echoscope"
