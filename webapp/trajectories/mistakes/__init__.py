"""Mistakes of a trajectory: what each action cost by the environment's solver, and the verdict on a failed attempt."""
