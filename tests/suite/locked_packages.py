"""Checks of the lock files, `make platforms` and `make audit`, and a bill of materials, `make sbom`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from bootstrap import locks, node, uv
from bootstrap.packages import PYTHON
from bootstrap.progress import ROOT, SetupError, step

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = {  # the oldest platforms in docs/quickstart.md: uv's name, and for macOS a variable with its version
    "Linux with glibc 2.28, x86-64": ("x86_64-manylinux_2_28", ""),
    "Linux with glibc 2.28, ARM": ("aarch64-manylinux_2_28", ""),
    "macOS 14, Apple silicon": ("aarch64-apple-darwin", "14.0"),
}
SOURCE_ONLY = ("cellpylib==", "chess==", "pycosat==", "zss==")
"""Packages for the tests of adapters that have no wheel for any machine."""
PIP_AUDIT = "pip-audit==2.10.1"
CYCLONEDX = "cyclonedx-bom==7.5.0"
BILL = ROOT / "build" / "sbom.cdx.json"
UNAVAILABLE = 69  # EX_UNAVAILABLE


def check_platforms() -> int:
    """Let uv resolve the lock files with wheels only, as if it ran on the oldest supported platforms.

    Nothing is installed. Raises SetupError with uv's explanation for the first package without a wheel.
    """
    wheels = ("pip", "compile", "--quiet", "--no-deps", "--only-binary", ":all:", "--python", sys.executable, "-")
    for name in [name for name in locks.LOCKED if name != "vllm"]:
        locked = "\n".join(
            [line for line in locks.versions(name) if not line.startswith(SOURCE_ONLY)] + [node.NODE_WHEEL]
        )
        for platform, (target, macos) in PLATFORMS.items():
            env = {**uv.environment(), "MACOSX_DEPLOYMENT_TARGET": macos}
            with step(f"requirements/{name}.txt on {platform}, Python {PYTHONS[0]} to {PYTHONS[-1]}"):
                for python in PYTHONS:
                    options = (*wheels, "--python-platform", target, "--python-version", python)
                    done = uv.call(*options, input=locked, env=env, capture_output=True)
                    if done.returncode:
                        raise SetupError(f"Python {python}: {done.stderr}")
    return 0


def audit(*arguments: str) -> int:
    """Look up known vulnerabilities of all locked packages. `arguments` go to pip-audit, as `--ignore-vuln ID`.

    Returns:
        0 without known vulnerabilities, 1 with any, else UNAVAILABLE if an advisory service did not answer.
    """
    # Every version is in the lock files, so nothing is resolved or installed. pip-audit wants all hashes or none.
    options = ["--no-deps", "--disable-pip", "--progress-spinner", "off", "--vulnerability-service", "osv"]
    with tempfile.TemporaryDirectory() as folder:
        for name in locks.LOCKED:
            Path(folder, f"{name}.txt").write_text("\n".join(locks.versions(name)), encoding="utf-8")
            options += ["--requirement", str(Path(folder, f"{name}.txt"))]
        pypi = _findings(uv.call("tool", "run", PIP_AUDIT, *options, *arguments, capture_output=True))
    npm = [*node.find()[1], "audit", "--package-lock-only", "--audit=true", "--fetch-retries=1"]
    codes = [pypi, _findings(subprocess.run(npm, capture_output=True, text=True))]
    return 1 if 1 in codes else max(codes)


def bill_of_materials(*arguments: str) -> int:
    """Write the packages in .venv, with licences and hashes of versions, as CycloneDX. Returns the exit code."""
    BILL.parent.mkdir(parents=True, exist_ok=True)
    options = ["--spec-version", "1.6", "--output-reproducible", "--pyproject", "pyproject.toml", "--output-file", BILL]
    program = ("tool", "run", "--from", CYCLONEDX, "cyclonedx-py", "environment")
    code = uv.call(*program, *map(str, options), *arguments, str(PYTHON)).returncode
    if not code:
        print(f"Wrote {BILL}.")
    return code


def _findings(done: subprocess.CompletedProcess[str]) -> int:
    """Return the exit code.

    Both programs exit with 1 for findings, which they print, and if a service does not answer.
    """
    errors = done.stderr.strip().splitlines()[-3:]
    if not done.returncode or (done.stdout.strip() and "npm error" not in done.stderr):
        print(done.stdout or "\n".join(errors))
        return min(done.returncode, 1)
    print("There was no answer from an advisory service: check the network, or set HTTPS_PROXY.", *errors, sep="\n  ")
    return UNAVAILABLE
