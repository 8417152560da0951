"""Groups of episodes: played with a sampler, recorded as trajectories."""
