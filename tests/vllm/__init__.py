"""Tests with the real vLLM, run by `make test-vllm` in a separate environment."""
