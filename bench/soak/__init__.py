"""Soak test of the whole product: `python -m bench.soak`."""
