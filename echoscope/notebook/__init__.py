"""Player of a trajectory in notebooks."""
