"""How a recorded run was started: command line, versions of libraries, state of the code."""

from __future__ import annotations

import platform
import re
import shlex
import subprocess
import sys
from importlib import metadata
from typing import Any

LIBRARIES = (
    "torch",
    "transformers",
    "trl",
    "verl",
    "verifiers",
    "vllm",
    "sglang",
    "accelerate",
    "deepspeed",
    "peft",
    "ray",
    "numpy",
)
"""Libraries whose versions are recorded if they are installed."""
MAX_COMMAND = 2000
SECONDS = 2.0
"""Time limit of a command of git."""
_SECRET = re.compile(r"(?i)(token|key|secret|passw|credential|authorization)")


def provenance() -> dict[str, Any]:
    """Return command, commit and versions, as far as they can be found out. Values of secrets are left out."""
    known: dict[str, Any] = {"versions": versions(), "platform": platform.platform()}
    if command := command_line(sys.argv):
        known["command"] = command
    if commit := _git("rev-parse", "HEAD"):
        known["commit"] = commit
        known["uncommitted"] = bool(_git("status", "--porcelain", "--untracked-files=no"))
    return known


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed libraries."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except Exception:  # noqa: BLE001 - not installed, or with damaged metadata
            continue
    return found


def command_line(arguments: list[str]) -> str:
    """Return the command line, with *** for the values of options that name a secret, and for addresses' passwords."""
    shown, hides = [], False
    for argument in arguments:
        name, separator, _ = argument.partition("=")
        if hides:
            argument, hides = "***", False
        elif separator and _SECRET.search(name):
            argument = f"{name}=***"
        elif argument.startswith("-") and _SECRET.search(argument):
            hides = True
        shown.append(re.sub(r"(://[^/:@\s]*:)[^/@\s]+@", r"\1***@", argument))
    return shlex.join(shown)[:MAX_COMMAND]


def _git(*arguments: str) -> str:
    """Return what git prints in the present folder; empty if it fails or takes long."""
    try:
        done = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
