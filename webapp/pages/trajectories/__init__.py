"""Pages of trajectories."""
