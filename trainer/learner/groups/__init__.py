"""Learners of a run as its driver sees them."""
