"""Metrics of an iteration and the Echo Trap detector."""
