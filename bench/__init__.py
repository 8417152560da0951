"""Benchmarks: one command per module (`python -m bench.<command>`), shared parts in bench/lib."""
