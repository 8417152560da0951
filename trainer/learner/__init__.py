"""One update of policy and critic on a batch of trajectories."""
