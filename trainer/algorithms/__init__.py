"""Pure functions of RL: advantages, losses, rewards, the group filter."""
