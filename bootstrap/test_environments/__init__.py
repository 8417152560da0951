"""Separate environments of tests that need packages besides the locked ones."""
