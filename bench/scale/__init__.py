"""Scaling of runs on Ray actors: rollout actors, the driver, rollouts during updates."""
