"""Stars, tags and comments on trajectories and turns."""
