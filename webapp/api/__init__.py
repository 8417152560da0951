"""The HTTP API, /api/: runs, metrics, trajectories, environments, shares."""
