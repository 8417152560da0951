"""Fixtures of the API tests."""

from tests.webapp.api.api_clients import callers

__all__ = ["callers"]
