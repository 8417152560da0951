"""A played trajectory for the tests of notifications."""

from tests.webapp.annotations.conftest import member, trajectory

__all__ = ["member", "trajectory"]
