"""Checks and tests, together or by kind."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from bootstrap.commands import set_up
from bootstrap.machine import GIB
from bootstrap.node import find as find_node
from bootstrap.progress import ROOT
from tests.suite import browser, locked_packages
from tests.suite.stages import Stages

LOGS = ROOT / "build" / "logs"
CHECKS = {
    "ruff check": [".venv/bin/ruff", "check", "."],
    "ruff format": [".venv/bin/ruff", "format", "--check", "."],
    "lint-imports": [".venv/bin/lint-imports"],
    "biome": ["node_modules/.bin/biome", "ci", "--colors=off"],
    "tsc": ["node_modules/.bin/tsc", "--project", "jsconfig.json"],
    "mypy": [".venv/bin/mypy"],
}
WHOLE_PRODUCT = ("tests/system", "tests/browser")
WITH_ADAPTERS, WITH_VLLM, WITH_MODELS, ON_GPU = "tests/envs/adapters", "tests/vllm", "tests/models", "tests/gpu"
EVERY_COMMIT = ("-m", "not nightly", "--durations=30")  # options of pytest: `make test` leaves out …
MORE_EXAMPLES = "--hypothesis-profile=nightly"
NIGHTLY = (MORE_EXAMPLES, "--durations=30")  # … what `make test-all` adds
MEMORY_SIDE_BY_SIDE = 6 * GIB  # for checks, tests and browser tests at once
MEMORY_TWO_PRODUCTS = 12 * GIB  # for two browser tests at once, given four cores
TESTS_FAILED = 1  # exit code of pytest, https://docs.pytest.org/en/stable/reference/exit-codes.html
GPU_PACKAGES = ("torch", "transformers", "accelerate", "peft", "pydantic", "gymnasium", "numba", "pytest")
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def lint(*arguments: str) -> int:
    """Run all checks at once."""
    set_up("dev")
    os.environ["PATH"] = f"{find_node()[0].parent}{os.pathsep}{os.environ['PATH']}"
    return Stages(LOGS).run(CHECKS, side_by_side=True)


def test(*arguments: str) -> int:
    """Run all checks and the tests of every commit, or only the test, file or folder that ONE names."""
    if one := os.environ.get("ONE"):
        return test_folder(one, *arguments)
    return _test_in_stages(*EVERY_COMMIT, *arguments)


def _test_in_stages(*arguments: str, apart: Sequence[str] = ()) -> int:
    """Checks, tests and browser tests side by side: browser tests wait much of the time, and mypy uses one core.

    The tests `apart` follow one by one; they do not read tests/conftest.py, which has the profiles of Hypothesis.
    """
    stages, started = Stages(LOGS), time.monotonic()
    set_up("dev")
    browser.ensure()
    stages.record("set-up", time.monotonic() - started)
    target = [sys.executable, "-m", "tests.suite"]
    tests = {name: [*target, name, *arguments] for name in ("test-python", "test-browser")}
    together = memory_bytes() >= MEMORY_SIDE_BY_SIDE
    code = stages.run({"lint": [*target, "lint"], **tests}, side_by_side=together)
    words = [word for word in arguments if word != MORE_EXAMPLES]
    code = stages.run({name: [*target, name, *words] for name in apart}, side_by_side=False) or code
    stages.show()
    return code


def test_python(*arguments: str) -> int:
    """Run the tests without browser, vLLM, language model and GPU, one process per core.

    Each process gets a contiguous part of the tests, so that few modules are prepared in both, and takes over what is
    left of another's.
    """
    apart = [f"--ignore={folder}" for folder in (*WHOLE_PRODUCT, WITH_VLLM, WITH_MODELS, ON_GPU)]
    return _pytest(set_up("dev"), *arguments, "-n", "auto", "--dist", "worksteal", *apart)


def test_browser(*arguments: str) -> int:
    """Run the tests of the whole product, with a browser, in processes with a product each; the longest file first.

    Their steps wait for servers, workers and pages, so what fails is repeated once, with a product of its own.
    """
    python = set_up("dev")
    os.environ["CHROMIUM"] = browser.ensure()
    two = memory_bytes() >= MEMORY_TWO_PRODUCTS and (os.cpu_count() or 1) >= 4
    own_cache = ("-o", "cache_dir=.pytest_cache/browser")  # the Python tests, run at once, write their failures too
    words = (*arguments, *own_cache, "--dist", "loadfile", "--no-loadscope-reorder", *WHOLE_PRODUCT)
    code = _pytest(python, *words, "-n", "2" if two else "1")
    if code == TESTS_FAILED:
        return _pytest(python, *words, "-n", "1", "--last-failed", "--last-failed-no-failures", "none")
    return code


def test_folder(name: str, *arguments: str) -> int:
    """Run one test, file or folder by its pytest id, with the packages or the browser that it needs, without checks."""
    folder = next((one for one in (WITH_ADAPTERS, WITH_VLLM, WITH_MODELS, ON_GPU) if name.startswith(one)), "")
    options = [f"--confcutdir={folder}"] if folder else []  # without the fixtures that start the site's servers
    lacks = missing_for_gpu() if folder == ON_GPU else ""
    if folder == ON_GPU:
        options += ["-c", f"{ON_GPU}/pytest.ini", "--rootdir=."]
    if lacks:
        print(f"{sys.executable} lacks {lacks}: the tests use the project's own environment.", flush=True)
    keep = folder == ON_GPU and not lacks
    python = Path(sys.executable) if keep else set_up({WITH_ADAPTERS: "adapters", WITH_VLLM: "vllm"}.get(folder, "dev"))
    if name.startswith(WHOLE_PRODUCT):
        os.environ["CHROMIUM"] = browser.ensure()
    return _pytest(python, *arguments, *options, name)


def missing_for_gpu() -> str:
    """Packages that this Python lacks for the tests on a GPU, separated by commas; empty if it lacks none."""
    if missing := [name for name in GPU_PACKAGES if importlib.util.find_spec(name) is None]:
        return ", ".join(missing)
    import torch

    return "" if torch.version.cuda else "a CUDA build of torch"


def _pytest(python: Path, *arguments: str) -> int:
    print(f"\n$ pytest {' '.join(arguments)}", flush=True)
    return subprocess.run([str(python), "-m", "pytest", *arguments]).returncode


def memory_bytes() -> int:
    """Main memory, or what the control group of this process may use of it."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(total, int(CGROUP_LIMIT.read_text(encoding="ascii")))
    except (OSError, ValueError):  # no control group, or its limit is "max"
        return total


TARGETS: dict[str, Callable[..., int]] = {
    "test": test,
    "test-all": partial(_test_in_stages, *NIGHTLY, apart=("test-adapters", "test-vllm", "test-models")),
    "test-fast": lambda *words: max(lint(), test_python(*EVERY_COMMIT, *words)),
    "test-python": test_python,
    "test-browser": test_browser,
    "test-adapters": partial(test_folder, WITH_ADAPTERS, "-n", "2", "--dist", "loadfile"),
    "test-vllm": partial(test_folder, WITH_VLLM),
    "test-models": partial(test_folder, WITH_MODELS),
    "test-gpu": partial(test_folder, ON_GPU),
    "lint": lint,
    "platforms": locked_packages.check_platforms,
    "audit": locked_packages.audit,
    "sbom": locked_packages.bill_of_materials,
}
