"""Mistakes of a trajectory according to the environment's solver, and the verdict on a failed attempt."""
