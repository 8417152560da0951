"""Environments in a subprocess of their own."""
