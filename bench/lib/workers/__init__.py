"""Programs that do the measured work, each in a separate process and interpreter."""
