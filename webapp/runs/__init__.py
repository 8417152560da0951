"""Training runs: models, state changes, queue, launch form, metrics and stored files."""
