"""What the tests of the API share."""

from tests.webapp.api.callers import callers

__all__ = ["callers"]
