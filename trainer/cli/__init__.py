"""Command line of the trainer."""
