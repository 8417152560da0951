"""Figures of the list of runs."""
