"""Timeout of all waits in tests, generous for a busy machine.

A wait ends as soon as its condition holds, so a long timeout costs nothing when a test passes.
"""

SECONDS = 300.0
MILLISECONDS = 300_000  # as Playwright counts
