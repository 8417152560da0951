"""What was played: groups, trajectories, turns, and the links that show them. Nothing about training."""
