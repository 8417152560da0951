"""Commands of `make`: set-up, start, lock files."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from bootstrap import locks, machine, node, packages
from bootstrap.packages import PYTHON
from bootstrap.progress import ROOT, SetupError


def run(commands: Mapping[str, Callable[..., int]], arguments: Sequence[str]) -> int:
    """Run one of the commands. Failures that the user has to resolve end with one message and exit code 1."""
    command = arguments[0] if arguments else "help"
    os.chdir(ROOT)
    if command == "help" or {"-h", "--help"} & set(arguments):
        return show_help()
    if command not in commands:
        print(f"There is no `make {command}`. `make help` lists the commands.", file=sys.stderr)
        return 2
    machine.cache_bytecode(ROOT / "build" / "compiled")
    try:
        return commands[command](*arguments[1:])
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
    with machine.exclusive(ROOT / "var" / "setup.lock"):
        python = packages.ensure(name)
        if name in ("run", "dev"):
            node.ensure(with_tools=name == "dev")
    if time.monotonic() - started > 3:
        print(f"  Set up in {time.monotonic() - started:.0f} s.", flush=True)
    return python


def start(command: str, *arguments: str) -> int:
    """Set up, then exec the supervising process, so that only this process receives Ctrl-C."""
    set_up("run")
    os.execv(PYTHON, [str(PYTHON), "manage.py", command, *arguments])


def install(*arguments: str) -> int:
    """Set up for running or, with the argument `dev`, for testing."""
    set_up("dev" if "dev" in arguments else "run")
    return 0


def show_help() -> int:
    """Print the list of targets at the top of the Makefile."""
    print(*re.findall("^#: ?(.*)$", Path("Makefile").read_text(encoding="utf-8"), re.MULTILINE), sep="\n")
    return 0


COMMANDS: dict[str, Callable[..., int]] = {
    "demo": partial(start, "demo"),
    "up": partial(start, "up"),
    "dev": partial(start, "dev"),
    "install": install,
    "lock": locks.update,
    "upgrade": partial(locks.update, "--upgrade"),
}
