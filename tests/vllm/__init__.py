"""Tests with the real vLLM, run by `make test-vllm` in an environment of its own; the other rounds leave them out."""
