"""Pictures of README and documentation, taken from the running product: `python -m bench.pictures`."""
