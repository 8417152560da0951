"""Replay of the Dockerfile's steps in bare roots: `python -m bench.image`."""
