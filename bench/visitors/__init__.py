"""Response times of visitors during a training run: `python -m bench.visitors`."""
