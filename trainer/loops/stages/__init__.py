"""Shared parts of the loops: policy set-up, rollouts, evaluation of suites, checkpoints, imitation."""
