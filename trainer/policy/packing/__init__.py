"""Packed sequences and shared prefixes."""
