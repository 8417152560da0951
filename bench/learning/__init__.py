"""Learning curves of presets with several seeds, one after the other or side by side on one machine."""
