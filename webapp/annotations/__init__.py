"""Stars, tags and comments that people leave on trajectories and turns."""
