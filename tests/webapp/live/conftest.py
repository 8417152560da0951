"""Fixtures of the websocket tests."""

from tests.webapp.annotations.conftest import trajectory

__all__ = ["trajectory"]
