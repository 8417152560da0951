"""Precision of the claims read in thoughts: `python -m bench.claims [--json PATH] [--errors]`."""
