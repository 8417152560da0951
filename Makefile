# Echoscope. Targets are implemented by bootstrap/, and those that check and test by tests/suite/. `make help` prints:
#:
#: make demo           set up, start everything, train an agent on Sokoban and open the page
#: make up             the same without the training run
#: make dev            like up; the web server restarts when code, templates or static files change
#: make test           set up, then all checks and the tests of every commit, including those in a browser
#: make test-all       the same with every test: more examples of each property, soak, adapters, vLLM, a language model
#: make test-fast      all checks, and the tests of every commit that need no browser
#: make test-python    only the tests that need no browser, vLLM, language model or GPU
#: make test-browser   only the tests of the whole product, with a browser; failures are repeated once
#: make test-adapters  only the tests of environment adapters, with their packages in a separate virtual environment
#: make test-vllm      only the tests with the real vLLM (3 GB, Linux on x86-64)
#: make test-models    only the tests with a language model, minutes on a CPU
#: make test-gpu       only the tests on a CUDA GPU, with a Python that has PyTorch for it
#: make lint           ruff, mypy, import rules and JavaScript checks
#: make install        set up only
#: make lock           update requirements/*.txt from pyproject.toml; locked versions are kept
#: make upgrade        the same with the newest versions
#: make platforms      locked packages without a wheel on a supported system, processor and Python
#: make audit          known vulnerabilities of the locked packages (pip-audit, npm audit)
#: make sbom           bill of materials of the installed packages (CycloneDX, build/sbom.cdx.json)
#: make clean          remove the results of set-up and tests; var/ with your runs and data is kept
#: make help           this list
#:
#: make test ONE=tests/…::name  only that test, file or folder, without the checks
#: make … PYTHON=python3.12     another Python
#: make … ARGS="…"              options of the program behind a target, as pytest's, or uv's for `make lock`
#: ECHOSCOPE_PORT=9000 make up  another port
#: See docs/quickstart.md for more.

PYTHON ?= python3
ARGS ?=
ONE ?=
export ONE

SET_UP = help demo up dev install lock upgrade
SUITE = lint platforms audit sbom test test-all test-fast test-python test-browser test-adapters test-vllm test-models test-gpu
.PHONY: $(SET_UP) $(SUITE) clean
.DEFAULT_GOAL := help

$(SET_UP): MODULE = bootstrap
$(SUITE): MODULE = tests.suite
$(SET_UP) $(SUITE):
	@for python in $(PYTHON) python3.12 python3.13 python3.11 python3.14; do \
	  if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    [ "$$python" = "$(PYTHON)" ] || echo "$(PYTHON) is missing or too old for Echoscope; using $$python."; \
	    exec $$python -m $(MODULE) $@ $(ARGS); \
	  fi; \
	done; \
	echo "Echoscope needs Python 3.11 or newer, and $(PYTHON) is missing or older. Install one (Debian, Ubuntu: apt-get" >&2; \
	echo "install python3 python3-venv; macOS: brew install python; anywhere: https://www.python.org/downloads/) and run" >&2; \
	echo "'make $@' again, or choose one: 'make $@ PYTHON=/path/to/python'." >&2; \
	exit 1

clean:
	rm -rf node_modules static/vendor test-artefacts build dist .*_cache .hypothesis *.egg-info echoscope/build \
	  echoscope/*.egg-info .venv .venv-adapters .venv-vllm
	@echo "Removed the virtual environments, fetched libraries and caches. var/ with your runs and data is kept."
