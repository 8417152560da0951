"""Fixed evaluation suites."""
