"""Errors of a cluster, importable without Ray."""

from __future__ import annotations


class ClusterError(RuntimeError):
    """The cluster cannot be reached, is too small, or lost what cannot be replaced. The message says what to do."""


class LearnerLostError(ClusterError):
    """A learner has died or is unreachable. The run can go on from its newest checkpoint with new learners."""
