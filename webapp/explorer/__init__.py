"""Queries that find, relate and compare trajectories and runs."""
