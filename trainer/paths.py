"""Paths of the shipped pocket checkpoint and of the cache."""

from __future__ import annotations

import os
from pathlib import Path

POCKET_CHECKPOINT = Path(__file__).parent / "policy" / "pocket_checkpoint"
"""The pocket policy that ships with the project: an ordinary transformers checkpoint."""


def default_cache() -> Path:
    """Cache folder of warmed-up policies: ECHOSCOPE_CACHE, or `echoscope` in the user's cache folder."""
    configured = os.environ.get("ECHOSCOPE_CACHE")
    return Path(configured) if configured else Path.home() / ".cache" / "echoscope"
