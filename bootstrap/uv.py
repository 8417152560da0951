"""uv, which resolves and installs packages: the machine's uv, or its wheel from the package index.

uv does not read pip's configuration, where companies and machines without internet name their index: it is passed on.
"""

from __future__ import annotations

import ast
import functools
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from bootstrap import progress
from bootstrap.progress import LOG, ROOT, Line, SetupError, step

REQUIREMENT = "uv==0.13.9"
MINIMUM = (0, 13)
FOLDER = ROOT / "build" / "uv"
PIP = ROOT / "build" / "pip" / "bin" / "pip"
FROM_PIP = {  # option of pip: variable of uv
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
}
LIKE_PIP = {"UV_INDEX_STRATEGY": "unsafe-best-match", "UV_SYSTEM_CERTS": "1", "UV_PYTHON_DOWNLOADS": "never"}
"""All indexes are equal, which is safe because versions are pinned; the system's certificates; no other Python."""
PIP_VARIABLES = {"PYTHONPYCACHEPREFIX": "", "PYTHONDONTWRITEBYTECODE": "1"}
"""pip is compiled where it is; to compile it for one call would take longer than the call."""
RETRY = "Downloaded packages are kept; run the same command again to continue."
FAILURES = {
    "ensurepip|No module named venv": (
        "This Python has no venv module: on Debian and Ubuntu it is a separate package. Install it with `sudo apt-get "
        f"install python3.{sys.version_info.minor}-venv` (or python3-venv) and run the same command again."
    ),
    "No space left on device": (
        f"The disk is full (uv also needs space in its cache, UV_CACHE_DIR, and in TMPDIR). Free some. {RETRY}"
    ),
    "Failed to fetch|error sending request|ConnectionError|Temporary failure|Name or service|timed out": (
        f"The package index is unreachable. Check the network (or set HTTPS_PROXY). {RETRY}"
    ),
    r"Python\.h|command '\S*(cc|clang)' failed": (
        "A package exists as source only and could not be compiled. Install a C compiler and the header files of "
        "Python (Debian, Ubuntu: sudo apt-get install gcc libc6-dev python3-dev; macOS: xcode-select --install). Only "
        f"`make test-adapters` needs them: its tests did NOT run. {RETRY}"
    ),
    "Hash mismatch": (
        "Under a locked version, the package index has another file than PyPI. It was not installed. If you trust the "
        "index, which may build packages itself, run the same command with UV_NO_VERIFY_HASHES=1."
    ),
    "No matching distribution|No solution found": (
        f"A package has no version for Python {platform.python_version()} on {platform.system()} {platform.machine()}. "
        f"Try another Python: PYTHON=python3.12. {RETRY}"
    ),
    "": f"A package could not be installed; the complete log is {LOG}. {RETRY}",
}
"""Pattern in the output of uv, pip or venv → explanation."""


def ensure() -> None:
    """Install uv into build/uv, unless this machine has a recent one. Raises SetupError."""
    if _path():
        return
    with step("Fetching uv, which installs the packages") as line:
        env = {**os.environ, **PIP_VARIABLES}
        if not _pip():
            _checked([sys.executable, "-m", "venv", "--clear", str(PIP.parents[1])], line, env)
        arguments = ("install", "--no-compile", "--disable-pip-version-check", "--upgrade", "--target", str(FOLDER))
        _checked([*_pip(), *arguments, REQUIREMENT], line, env)
        _path.cache_clear()


def run(line: Line, *arguments: str) -> str:
    """Run uv and return its last lines of output. Raises SetupError with an explanation."""
    return _checked(argv(*arguments), line, environment())


def call(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run uv, fetched first if it is missing, with options of subprocess.run."""
    ensure()
    return subprocess.run(argv(*arguments), **{"env": environment(), "text": True, **options})


def argv(*arguments: str) -> list[str]:
    """Return the command line of uv, after `ensure`."""
    no_index = ["--no-index"] if arguments[0] == "pip" and "no-index" in _pip_options() else []
    return [_path() or "uv", *arguments, *no_index]


def environment() -> dict[str, str]:
    """Return variables for uv: this process's, or else pip's configuration, or else settings like pip's."""
    options = _pip_options()
    from_pip = {FROM_PIP[option]: " ".join(options[option].split()) for option in FROM_PIP.keys() & options}
    if links := from_pip.get("UV_FIND_LINKS"):
        from_pip["UV_FIND_LINKS"] = links.replace(" ", ",")
    return {**LIKE_PIP, **from_pip, **os.environ}


def is_installed(python: Path, *requirements: str) -> bool:
    """Return True if an environment has all of the requirements (arguments of `uv pip install`). Takes some 0.1 s."""
    ensure()
    argv = [_path() or "uv", "pip", "install", "--dry-run", "--offline", "--python", str(python), *requirements]
    return "Would make no changes" in subprocess.run(argv, capture_output=True, text=True).stderr


@functools.cache
def _path() -> str | None:
    """Return the path of a uv that is new enough."""
    for path in filter(None, (shutil.which("uv"), shutil.which(str(FOLDER / "bin" / "uv")))):
        version = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
        if tuple(map(int, re.findall(r"\d+", version)[:2])) >= MINIMUM:
            return path
    return None


def _pip() -> list[str]:
    """Return the command of this Python's pip, or of the pip that `ensure` installs; empty if there is neither."""
    if PathFinder.find_spec("pip"):  # setuptools' finder would make torch's compiler unusable in this process
        return [sys.executable, "-m", "pip"]
    return [str(PIP)] if PIP.exists() else []


@functools.cache
def _pip_options() -> dict[str, str]:
    """Return pip's configuration: variables before files, and the section of `install` before the general one."""
    argv, env = [*_pip(), "config", "list"], {**os.environ, **PIP_VARIABLES}
    output = subprocess.run(argv, env=env, capture_output=True, text=True).stdout if _pip() else ""
    options: dict[str, str] = {}
    for section in (":env:", "install", "global"):
        for option, value in re.findall(rf"^{section}\.([\w-]+)=(.*)$", output, re.MULTILINE):
            options.setdefault(option, str(ast.literal_eval(value)))
    return options


def explain(output: str) -> str:
    """Return the message for a failure of uv, pip or venv, with the end of its output."""
    message = next(message for pattern, message in FAILURES.items() if re.search(pattern, output))
    return "\n".join([message, *("  " + line for line in output.splitlines()[-8:])])


def _checked(argv: Sequence[str], line: Line, env: Mapping[str, str]) -> str:
    code, output = progress.run(argv, line, env)
    if code:
        raise SetupError(explain(output))
    return output
