"""Fixture: each test has live environments of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from webapp.play import sessions


@pytest.fixture(autouse=True)
def _sessions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Settings) -> Iterator[None]:
    """Close live environments after each test, and raise the timeout for busy machines."""
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    fresh, visitors = sessions.SessionPool(), sessions.SessionPool()
    monkeypatch.setattr("webapp.play.games.SESSIONS", fresh)
    monkeypatch.setattr("webapp.play.games.VISITOR_SESSIONS", visitors)
    monkeypatch.setattr(sessions, "ANSWER_TIMEOUT", 120.0)
    yield
    fresh.close()
    visitors.close()
