"""Programs that do the measured work, each in a process and interpreter of its own."""
