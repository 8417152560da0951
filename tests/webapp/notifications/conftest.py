"""A played trajectory for the tests of notifications."""

from tests.webapp.annotations.conftest import member, played, trajectory

__all__ = ["member", "played", "trajectory"]
