"""Boards of other packages' environments, drawn from their states."""
