"""Errors of a cluster, importable without Ray."""

from __future__ import annotations


class ClusterError(RuntimeError):
    """The cluster is unreachable, too small, or lost something irreplaceable. The message says what to do."""


class LearnerLostError(ClusterError):
    """A learner has died or is unreachable. The run can continue from its newest checkpoint with new learners."""
