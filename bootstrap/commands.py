"""Commands of `make`: set-up, start, checks and tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bootstrap import audit, browser, lock, machine, node, platform_wheels, stamp
from bootstrap.background import Background
from bootstrap.packages import PYTHON, ROOT, VENV, ensure
from bootstrap.progress import SetupError
from bootstrap.stages import Stages
from bootstrap.test_environments import adapter_packages, gpu_packages, vllm_packages

SPACE_START = machine.GIB // 2
LOGS = ROOT / "build" / "logs"

HELP = """\
make demo       set up, start everything, train an agent on Sokoban and open the page
make up         the same without the training run
make dev        like up, with a web server that restarts when code, templates or static files change
make test       set up, then all checks and the tests of every commit, including those in a browser
make test-all   the same with every test: more examples of each property, soak, adapters, vLLM, a language model
make test ONE=tests/…::name    only that test, file or folder, without the checks
make test-fast  all checks, and the tests of every commit that need no browser
make test-python  only the tests that need no browser, vLLM, language model or GPU
make test-browser  only the tests of the whole product, with a browser; failures are repeated in a fresh one
make test-adapters  only the tests of environment adapters, with their packages in a separate virtual environment
make test-vllm  only the tests with the real vLLM, in a separate virtual environment (3 GB, Linux on x86-64)
make test-models  only the tests with a real language model (SmolLM2 135M, a download of 93 MB; minutes on a CPU)
make test-gpu   only the tests on a CUDA GPU; with a Python that has a CUDA build of PyTorch, nothing is installed
make lint       ruff, mypy, import rules and JavaScript checks
make install    set up only
make lock       update requirements/*.txt from pyproject.toml
make platforms  locked packages without a wheel on a supported system, processor and Python; needs the network
make audit      known vulnerabilities of the locked packages (pip-audit, npm audit); needs the network
make clean      remove the results of set-up and tests; var/ with your runs and data is kept

make … PYTHON=python3.12       another Python
ECHOSCOPE_PORT=9000 make up    another port
See docs/quickstart.md for more."""

LINT = [
    ["ruff", "check", "."],
    ["ruff", "format", "--check", "."],
    ["lint-imports"],
]
MYPY = ["mypy"]
JAVASCRIPT = [
    ["node_modules/.bin/biome", "ci", "--colors=off"],
    ["node_modules/.bin/tsc", "--project", "jsconfig.json"],
]


def run(arguments: Sequence[str]) -> int:
    """Run a command. Failures that the user has to resolve end with one message and exit code 1."""
    command = arguments[0] if arguments else "help"
    action = COMMANDS.get(command)
    if action is None:
        print(f"There is no `make {command}`.\n\n{HELP}", file=sys.stderr)
        return 2
    os.chdir(ROOT)
    machine.cache_bytecode(ROOT / "build" / "compiled")
    try:
        return action(list(arguments[1:]))
    except SetupError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. Packages installed so far are kept; run the same command again to continue.", file=sys.stderr)
        return 130


def set_up(extra: str) -> None:
    """Install the packages for running (`run`) or testing (`dev`)."""
    started = time.monotonic()
    machine.require_supported_system()
    with stamp.exclusive(ROOT / "var" / "setup.lock"):
        ensure(extra)
        node.ensure(with_tools=extra == "dev")
    if time.monotonic() - started > 3:
        print(f"  Set up in {time.monotonic() - started:.0f} s.", flush=True)


def start(command: str, arguments: list[str]) -> int:
    """Set up, then exec the supervising process, so that Ctrl-C reaches it alone."""
    set_up("run")
    machine.require_space(ROOT / "var", SPACE_START, "to start")
    os.execv(PYTHON, [str(PYTHON), "manage.py", command, *arguments])


def lint(arguments: list[str]) -> int:
    set_up("dev")
    return _checks()


def _checks() -> int:
    """All checks; mypy, which takes longer than the others together, in the background of these."""
    path, _ = node.find()
    with Background(_argv(MYPY), LOGS / "mypy.txt") as mypy:
        for argv in [*map(_argv, LINT), *([str(path), *words] for words in JAVASCRIPT)]:
            print(f"\n$ {Path(argv[0]).name} {' '.join(argv[1:])}", flush=True)
            if code := subprocess.run(argv).returncode:
                return code
        return _show("mypy", mypy)


WHOLE_PRODUCT = ["tests/system", "tests/browser"]
WITH_ADAPTERS = "tests/envs/adapters"
WITH_VLLM = "tests/vllm"
ON_GPU = "tests/gpu"
WITH_MODELS = "tests/models"
EVERY_COMMIT = ["-m", "not nightly", "--durations=30"]
"""Options of pytest for `make test`: it leaves out what `make test-all` adds."""
NIGHTLY = ["--hypothesis-profile=nightly", "--durations=30"]
"""Options of pytest for `make test-all`: every test, and more examples of each property."""
MEMORY_SIDE_BY_SIDE = 6 * machine.GIB
"""Memory from which on checks, tests and browser tests run side by side."""
MEMORY_TWO_PRODUCTS = 12 * machine.GIB
"""Memory from which on two browser tests run at once, given cores for both."""
CORES_TWO_PRODUCTS = 4
TESTS_FAILED = 1
"""Exit code of pytest, https://docs.pytest.org/en/stable/reference/exit-codes.html."""


def _argv(words: list[str]) -> list[str]:
    return [str(VENV / "bin" / words[0]), *words[1:]]


def _show(title: str, program: Background) -> int:
    print(f"\n$ {title}", flush=True)
    return program.show()


def test(arguments: list[str]) -> int:
    """Run all checks and the tests that belong to every commit.

    With ONE=tests/…::name in the environment, run only that test, file or folder.
    """
    if one := os.environ.get("ONE"):
        return test_one(one, arguments)
    stages = Stages(LOGS)
    code = _checks_and_tests(stages, [*EVERY_COMMIT, *arguments])
    stages.show()
    return code


def test_all(arguments: list[str]) -> int:
    """Run every check and every test of this machine, including those with adapters, vLLM and a language model."""
    stages = Stages(LOGS)
    code = _checks_and_tests(stages, [*NIGHTLY, *arguments])
    apart = {f"make test-{name}": _make(f"test-{name}", arguments) for name in ("adapters", "vllm", "models")}
    code = stages.run(apart, side_by_side=False) or code
    stages.show()
    return code


def _checks_and_tests(stages: Stages, arguments: list[str]) -> int:
    """Checks, tests and browser tests side by side: browser tests wait much of the time, and mypy uses one core."""
    started = time.monotonic()
    set_up("dev")
    browser.ensure()
    stages.record("set-up", time.monotonic() - started)
    programs = {
        "make lint": _make("lint", []),
        "pytest": _make("test-python", arguments),
        "make test-browser": _make("test-browser", arguments),
    }
    return stages.run(programs, side_by_side=machine.memory_bytes() >= MEMORY_SIDE_BY_SIDE)


def _make(command: str, arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "bootstrap", command, *arguments]


def test_one(name: str, arguments: list[str]) -> int:
    """Run one test, file or folder by its pytest id, without checks; Chromium, adapters or vLLM only if needed."""
    if name.startswith(WITH_ADAPTERS):
        return _adapters(name, arguments)
    if name.startswith(WITH_VLLM):
        return _vllm(name, arguments)
    if name.startswith(ON_GPU):
        return _gpu(name, arguments)
    if name.startswith(WITH_MODELS):
        return _models(name, arguments)
    set_up("dev")
    variables = {"CHROMIUM": browser.ensure()} if name.startswith(tuple(WHOLE_PRODUCT)) else {}
    argv = [str(PYTHON), "-m", "pytest", *arguments, name]
    return subprocess.run(argv, env={**os.environ, **variables}).returncode


def test_fast(arguments: list[str]) -> int:
    """Run all checks and the tests of every commit that need no browser."""
    set_up("dev")
    code = _checks()
    return test_python([*EVERY_COMMIT, *arguments]) or code


def test_python(arguments: list[str]) -> int:
    """Run the tests without browser, vLLM, language model and GPU, one process per core.

    Each process gets a contiguous part of the tests, so that few modules are prepared in both, and takes over what is
    left of another's.
    """
    set_up("dev")
    apart = [f"--ignore={folder}" for folder in [*WHOLE_PRODUCT, WITH_VLLM, WITH_MODELS, ON_GPU]]
    words = ["-n", "auto", "--dist", "worksteal", *apart]
    print(f"\n$ pytest {' '.join(words)}", flush=True)
    return subprocess.run([str(PYTHON), "-m", "pytest", *arguments, *words]).returncode


def test_browser(arguments: list[str]) -> int:
    """Run the tests of the whole product, with a browser.

    Their steps wait for servers, workers and pages, so what fails is repeated once, with a product of its own.
    """
    set_up("dev")
    variables = {**os.environ, "CHROMIUM": browser.ensure()}
    enough = machine.memory_bytes() >= MEMORY_TWO_PRODUCTS and (os.cpu_count() or 1) >= CORES_TWO_PRODUCTS
    processes = 2 if enough else 1
    code = subprocess.run(_browser_tests(arguments, processes), env=variables).returncode
    if code != TESTS_FAILED:
        return code
    print("\n$ pytest --last-failed, with a fresh product", flush=True)
    again = ["--last-failed", "--last-failed-no-failures", "none"]
    return subprocess.run(_browser_tests([*arguments, *again], 1), env=variables).returncode


def test_adapters(arguments: list[str]) -> int:
    """Run the tests of environment adapters with the packages whose environments they play, two files at a time."""
    return _adapters(WITH_ADAPTERS, [*arguments, "-n", "2", "--dist", "loadfile"])


def test_vllm(arguments: list[str]) -> int:
    """Run the tests that start vLLM, with its Python; one at a time, because an engine uses all cores."""
    return _vllm(WITH_VLLM, arguments)


def test_models(arguments: list[str]) -> int:
    """Run the tests with a real language model; without its package they are skipped, and the summary says so."""
    return _models(WITH_MODELS, arguments)


def _models(name: str, arguments: list[str]) -> int:
    set_up("dev")
    print(f"\n$ pytest {name}", flush=True)
    separate = f"--confcutdir={WITH_MODELS}"  # without the fixtures that start the site's servers
    return subprocess.run([str(PYTHON), "-m", "pytest", *arguments, separate, name]).returncode


def test_gpu(arguments: list[str]) -> int:
    """Run the tests that need a CUDA GPU; without one they are skipped, and the summary says so."""
    return _gpu(ON_GPU, arguments)


def _gpu(name: str, arguments: list[str]) -> int:
    """With this Python if it has what they need, with the project's otherwise."""
    python = sys.executable
    if absent := gpu_packages.missing():
        print(f"{python} lacks {absent}: the tests use the project's own environment.", flush=True)
        set_up("dev")
        python = str(PYTHON)
    print(f"\n$ pytest {name}", flush=True)
    own = ["-c", f"{ON_GPU}/pytest.ini", "--rootdir=.", f"--confcutdir={ON_GPU}"]  # without the site's fixtures
    return subprocess.run([python, "-m", "pytest", *arguments, *own, name]).returncode


def _adapters(name: str, arguments: list[str]) -> int:
    set_up("dev")
    with stamp.exclusive(ROOT / "var" / "setup.lock"):
        adapter_packages.ensure()
    print(f"\n$ pytest {name}", flush=True)
    separate = f"--confcutdir={WITH_ADAPTERS}"  # without the fixtures that start the site's servers
    return subprocess.run([str(adapter_packages.VENV_PYTHON), "-m", "pytest", *arguments, separate, name]).returncode


def _vllm(name: str, arguments: list[str]) -> int:
    machine.require_supported_system()
    with stamp.exclusive(ROOT / "var" / "setup.lock"):
        vllm_packages.ensure()
    print(f"\n$ pytest {name}", flush=True)
    separate = f"--confcutdir={WITH_VLLM}"  # without the fixtures that start the site's servers
    return subprocess.run([str(vllm_packages.PYTHON), "-m", "pytest", *arguments, separate, name]).returncode


def _browser_tests(arguments: list[str], processes: int) -> list[str]:
    """Processes with a product each, which take one file after the other; the longest test is in the first folder."""
    words = ["-n", str(processes), "--dist", "loadfile", "--no-loadscope-reorder"]
    return [str(PYTHON), "-m", "pytest", *arguments, *words, *WHOLE_PRODUCT]


def install(arguments: list[str]) -> int:
    set_up("dev" if "dev" in arguments else "run")
    return 0


def update_lock(arguments: list[str]) -> int:
    set_up("dev")
    return lock.update()


def check_platforms(arguments: list[str]) -> int:
    set_up("dev")
    return platform_wheels.check()


def audit_locks(arguments: list[str]) -> int:
    set_up("dev")
    return audit.audit(arguments)


def clean(arguments: list[str]) -> int:
    names = [".venv", ".venv-adapters", ".venv-vllm", "node_modules", "static/vendor", "test-artefacts"]
    names += ["build", "dist", "echoscope/build"]
    names += [".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".import_linter_cache"]
    for path in [ROOT / name for name in names] + [*ROOT.glob("*.egg-info"), *ROOT.glob("echoscope/*.egg-info")]:
        shutil.rmtree(path, ignore_errors=True)
    print("Removed the virtual environments, fetched libraries and caches. var/ with your runs and data is kept.")
    return 0


def usage(arguments: list[str]) -> int:
    print(HELP)
    return 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "demo": lambda arguments: start("demo", arguments),
    "up": lambda arguments: start("up", arguments),
    "dev": lambda arguments: start("dev", arguments),
    "test": test,
    "test-all": test_all,
    "test-fast": test_fast,
    "test-python": test_python,
    "test-browser": test_browser,
    "test-adapters": test_adapters,
    "test-vllm": test_vllm,
    "test-models": test_models,
    "test-gpu": test_gpu,
    "lint": lint,
    "install": install,
    "lock": update_lock,
    "platforms": check_platforms,
    "audit": audit_locks,
    "clean": clean,
    "help": usage,
}
