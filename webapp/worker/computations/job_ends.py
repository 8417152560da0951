"""Ends of a computation other than its success."""

from __future__ import annotations


class ComputationFailed(Exception):
    """The tokens cannot be computed here. The message is a sentence for the page of the attempt."""


class ComputationWithdrawn(Exception):
    """The request was withdrawn or taken over by another worker."""


class WorkerStops(Exception):
    """The worker is shutting down."""
