"""Folders of the trainer: the shipped pocket checkpoint and the cache."""

from __future__ import annotations

import os
from pathlib import Path

POCKET_CHECKPOINT = Path(__file__).parent / "policy" / "pocket_checkpoint"
"""The pocket policy that ships with the project: an ordinary transformers checkpoint."""


def default_cache() -> Path:
    """Cache folder of warmed-up policies: ECHOSCOPE_CACHE, or `echoscope` in the user's cache folder."""
    given = os.environ.get("ECHOSCOPE_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "echoscope"
