"""Settings of a run, presets and validation messages. Imports no torch."""
