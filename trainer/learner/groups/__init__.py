"""Learners of a run from its driver's view."""
