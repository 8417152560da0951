"""Benchmark of rollout, update and iteration on a GPU: independent parts, one command."""
