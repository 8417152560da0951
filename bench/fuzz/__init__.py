"""Fuzzer of the whole site: `python -m bench.fuzz`."""
