"""Commands of `make`: set-up, start, checks and tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from bootstrap import browser, locks, machine, node, packages, stamp
from bootstrap.packages import PYTHON
from bootstrap.progress import ROOT, SetupError
from bootstrap.stages import Stages

HELP = """
make test ONE=tests/…::name  only that test, file or folder, without the checks
make … PYTHON=python3.12     another Python
ECHOSCOPE_PORT=9000 make up  another port
See docs/quickstart.md for more."""
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
NIGHTLY = ("--hypothesis-profile=nightly", "--durations=30")  # … what `make test-all` adds
MEMORY_SIDE_BY_SIDE = 6 * machine.GIB  # for checks, tests and browser tests at once
MEMORY_TWO_PRODUCTS = 12 * machine.GIB  # for two browser tests at once, given four cores
TESTS_FAILED = 1  # exit code of pytest, https://docs.pytest.org/en/stable/reference/exit-codes.html
GPU_PACKAGES = ("torch", "transformers", "accelerate", "peft", "pydantic", "gymnasium", "numba", "pytest")
MISSING_FOR_GPU = """
import importlib.util, sys
missing = [name for name in sys.argv[1:] if importlib.util.find_spec(name) is None]
if not missing:
    import torch
sys.exit(", ".join(missing) or (None if torch.version.cuda else "a CUDA build of torch"))
"""


def run(arguments: Sequence[str]) -> int:
    """Run a command. Failures that the user has to resolve end with one message and exit code 1."""
    command = arguments[0] if arguments else "help"
    if command not in COMMANDS:
        print(f"There is no `make {command}`. `make help` lists the commands.", file=sys.stderr)
        return 2
    os.chdir(ROOT)
    machine.cache_bytecode(ROOT / "build" / "compiled")
    try:
        return COMMANDS[command][0](*arguments[1:])
    except SetupError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. Downloaded packages are kept; run the same command again to continue.", file=sys.stderr)
        return 130


def set_up(name: str) -> Path:
    """Install the packages of an environment, see `packages.ensure`, and libraries of the pages. Returns its Python."""
    started = time.monotonic()
    machine.require_supported_system()
    with stamp.exclusive(ROOT / "var" / "setup.lock"):
        python = packages.ensure(name)
        if name in ("run", "dev"):
            node.ensure(with_tools=name == "dev")
    if time.monotonic() - started > 3:
        print(f"  Set up in {time.monotonic() - started:.0f} s.", flush=True)
    return python


def start(command: str, *arguments: str) -> int:
    """Set up, then exec the supervising process, so that Ctrl-C reaches it alone."""
    set_up("run")
    machine.require_space(ROOT / "var", machine.GIB // 2, "to start")
    os.execv(PYTHON, [str(PYTHON), "manage.py", command, *arguments])


def install(*arguments: str) -> int:
    """Set up for running or, with the argument `dev`, for testing."""
    set_up("dev" if "dev" in arguments else "run")
    return 0


def lint(*arguments: str) -> int:
    """Run all checks at once."""
    set_up("dev")
    os.environ["PATH"] = f"{node.find()[0].parent}{os.pathsep}{os.environ['PATH']}"
    return Stages(LOGS).run(CHECKS, side_by_side=True)


def test(*arguments: str) -> int:
    """Run all checks and the tests of every commit, or only the test, file or folder that ONE names."""
    if one := os.environ.get("ONE"):
        return test_folder(one, *arguments)
    return _test_in_stages(*EVERY_COMMIT, *arguments)


def _test_in_stages(*arguments: str, apart: Sequence[str] = ()) -> int:
    """Checks, tests and browser tests side by side: browser tests wait much of the time, and mypy uses one core."""
    stages, started = Stages(LOGS), time.monotonic()
    set_up("dev")
    browser.ensure()
    stages.record("set-up", time.monotonic() - started)
    make = [sys.executable, "-m", "bootstrap"]
    tests = {name: [*make, name, *arguments] for name in ("test-python", "test-browser")}
    together = machine.memory_bytes() >= MEMORY_SIDE_BY_SIDE
    code = stages.run({"lint": [*make, "lint"], **tests}, side_by_side=together)
    code = stages.run({name: [*make, name, *arguments] for name in apart}, side_by_side=False) or code
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
    two = machine.memory_bytes() >= MEMORY_TWO_PRODUCTS and (os.cpu_count() or 1) >= 4
    words = (*arguments, "--dist", "loadfile", "--no-loadscope-reorder", *WHOLE_PRODUCT)
    code = _pytest(python, *words, "-n", "2" if two else "1")
    if code == TESTS_FAILED:
        return _pytest(python, *words, "-n", "1", "--last-failed", "--last-failed-no-failures", "none")
    return code


def test_folder(name: str, *arguments: str) -> int:
    """Run one test, file or folder by its pytest id, with the packages or the browser that it needs, without checks."""
    folder = next((one for one in (WITH_ADAPTERS, WITH_VLLM, WITH_MODELS, ON_GPU) if name.startswith(one)), "")
    own = [f"--confcutdir={folder}"] if folder else []  # without the fixtures that start the site's servers
    python = Path(sys.executable)
    if folder == ON_GPU:
        own += ["-c", f"{ON_GPU}/pytest.ini", "--rootdir=."]
    if folder != ON_GPU or (lacks := missing_for_gpu()):
        if folder == ON_GPU:
            print(f"{python} lacks {lacks}: the tests use the project's own environment.", flush=True)
        python = set_up({WITH_ADAPTERS: "adapters", WITH_VLLM: "vllm"}.get(folder, "dev"))
    if name.startswith(WHOLE_PRODUCT):
        os.environ["CHROMIUM"] = browser.ensure()
    return _pytest(python, *arguments, *own, name)


def missing_for_gpu() -> str:
    """Packages that this Python lacks for the tests on a GPU, separated by commas; empty if it lacks none."""
    done = subprocess.run([sys.executable, "-c", MISSING_FOR_GPU, *GPU_PACKAGES], capture_output=True, text=True)
    return done.stderr.strip()[-200:] if done.returncode else ""


def _pytest(python: Path, *arguments: str) -> int:
    print(f"\n$ pytest {' '.join(arguments)}", flush=True)
    return subprocess.run([str(python), "-m", "pytest", *arguments]).returncode


def clean(*arguments: str) -> int:
    """Remove the results of set-up and tests."""
    names = "node_modules static/vendor test-artefacts build dist .*_cache .hypothesis *.egg-info echoscope/*.egg-info"
    found = [path for name in [*names.split(), "echoscope/build"] for path in ROOT.glob(name)]
    for path in [*found, *(folder for folder, _ in packages.ENVIRONMENTS.values())]:
        shutil.rmtree(path, ignore_errors=True)
    print("Removed the virtual environments, fetched libraries and caches. var/ with your runs and data is kept.")
    return 0


def show_help(*arguments: str) -> int:
    """Print the list of commands."""
    print(*(f"make {name:<13}  {text}" for name, (_, text) in COMMANDS.items()), HELP, sep="\n")
    return 0


COMMANDS: dict[str, tuple[Callable[..., int], str]] = {
    "demo": (partial(start, "demo"), "set up, start everything, train an agent on Sokoban and open the page"),
    "up": (partial(start, "up"), "the same without the training run"),
    "dev": (partial(start, "dev"), "like up; the web server restarts when code, templates or static files change"),
    "test": (test, "set up, then all checks and the tests of every commit, including those in a browser"),
    "test-all": (
        partial(_test_in_stages, *NIGHTLY, apart=("test-adapters", "test-vllm", "test-models")),
        "the same with every test: more examples of each property, soak, adapters, vLLM, a language model",
    ),
    "test-fast": (
        lambda *words: max(lint(), test_python(*EVERY_COMMIT, *words)),
        "all checks, and the tests of every commit that need no browser",
    ),
    "test-python": (test_python, "only the tests that need no browser, vLLM, language model or GPU"),
    "test-browser": (test_browser, "only the tests of the whole product, with a browser; failures are repeated once"),
    "test-adapters": (
        partial(test_folder, WITH_ADAPTERS, "-n", "2", "--dist", "loadfile"),
        "only the tests of environment adapters, with their packages in a separate virtual environment",
    ),
    "test-vllm": (partial(test_folder, WITH_VLLM), "only the tests with the real vLLM (3 GB, Linux on x86-64)"),
    "test-models": (partial(test_folder, WITH_MODELS), "only the tests with a language model, minutes on a CPU"),
    "test-gpu": (partial(test_folder, ON_GPU), "only the tests on a CUDA GPU, with a Python that has PyTorch for it"),
    "lint": (lint, "ruff, mypy, import rules and JavaScript checks"),
    "install": (install, "set up only"),
    "lock": (locks.update, "update requirements/*.txt from pyproject.toml"),
    "platforms": (locks.check_platforms, "locked packages without a wheel on a supported system, processor and Python"),
    "audit": (locks.audit, "known vulnerabilities of the locked packages (pip-audit, npm audit)"),
    "sbom": (locks.bill_of_materials, "bill of materials of the installed packages (CycloneDX, build/sbom.cdx.json)"),
    "clean": (clean, "remove the results of set-up and tests; var/ with your runs and data is kept"),
    "help": (show_help, "this list"),
}
