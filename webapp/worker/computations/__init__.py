"""Computation of the tokens of attempts from checkpoints, alongside the worker's runs."""
