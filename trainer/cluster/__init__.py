"""Ray actors of a run, on this machine or a cluster. No other room imports Ray."""
