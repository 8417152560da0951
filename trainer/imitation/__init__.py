"""Demonstrations by rule-based players, and the warm-up on them."""
