"""Groups, trajectories, turns and their share links."""
