"""Games that a person plays in an environment."""
