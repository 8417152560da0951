"""Grids of runs that reproduce the paper's figures and tables."""
