# Echoscope: `make help` explains every target. bootstrap/ implements them with the standard library only.

PYTHON ?= python3
ARGS ?=
ONE ?=
export ONE

.PHONY: help demo up dev test test-all test-fast test-python test-browser test-adapters test-vllm test-models test-gpu lint install lock platforms audit sbom clean
.DEFAULT_GOAL := help

help demo up dev test test-all test-fast test-python test-browser test-adapters test-vllm test-models test-gpu lint install lock platforms audit sbom clean:
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
	  echo "$(PYTHON) was not found. Echoscope needs Python 3.11 or newer: install it (Debian, Ubuntu: apt-get install python3"; \
	  echo "python3-venv; macOS: brew install python) and run 'make $@' again, or choose one: 'make $@ PYTHON=/path/to/python'."; \
	  exit 1; } >&2
	@exec $(PYTHON) -m bootstrap $@ $(ARGS)
