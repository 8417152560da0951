"""How runs on Ray actors scale: rollout actors, the driver, rollouts during updates."""
