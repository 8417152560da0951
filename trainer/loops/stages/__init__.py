"""Parts that several loops use: policy set-up, rollouts, evaluation of suites, checkpoints, imitation."""
