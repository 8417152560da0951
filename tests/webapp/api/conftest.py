"""Fixtures of the API tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.webapp.api.api_clients import callers

__all__ = ["callers"]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the nightly cases of all operations, which take every test process ten seconds to collect."""
    return True if collection_path.name == "test_schema.py" and config.option.markexpr == "not nightly" else None
