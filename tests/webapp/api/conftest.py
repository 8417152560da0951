"""What the tests of the API share."""

from tests.webapp.api.api_clients import callers

__all__ = ["callers"]
