"""The launch form with its estimates, warnings and exports."""
