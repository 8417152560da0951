"""Rollout: plays groups of episodes with a sampler and records them as trajectories."""
