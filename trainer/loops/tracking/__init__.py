"""Shared parts of experiment trackers, and traces."""
