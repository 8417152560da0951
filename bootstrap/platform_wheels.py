"""Wheels of the locked packages for every supported system, processor and Python: `make platforms`.

uv resolves the lock files as if it ran on another machine, and may take nothing but wheels. So the oldest system is
found on which set-up needs no compiler. Nothing is installed, and nothing is run on these machines.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bootstrap import lock, node
from bootstrap.packages import ROOT
from bootstrap.progress import SetupError, step

LOCKS = ("run", "dev", "adapters")
SOURCE_ONLY = {"adapters": ("cellpylib", "chess", "pycosat", "zss")}
"""Packages of a lock file that have no wheel for any machine; pycosat is compiled."""
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
ABSENT = 1
UNAVAILABLE = 69
"""Exit code if the package index does not answer (EX_UNAVAILABLE): nothing is known then."""
UNSATISFIABLE = "No solution found"
"""How uv's message begins if the index answered, and has no suitable file."""


@dataclass(frozen=True)
class System:
    """A version of an operating system on one processor, in uv's terms."""

    version: str
    uv_platform: str
    deployment_target: str = ""
    """macOS only: its version, which uv reads from the environment."""


@dataclass(frozen=True)
class Platform:
    """A supported platform, with versions of its system from the oldest to the newest that is tried."""

    name: str
    systems: tuple[System, ...]


def _linux(processor: str) -> tuple[System, ...]:
    versions = ("2_17", "2_28", "2_31", "2_34", "2_39")
    return tuple(System(f"glibc {one.replace('_', '.')}", f"{processor}-manylinux_{one}") for one in versions)


PLATFORMS = (
    Platform("Linux, x86-64", _linux("x86_64")),
    Platform("Linux, ARM", _linux("aarch64")),
    Platform(
        "macOS, Apple silicon",
        tuple(System(f"macOS {one}", "aarch64-apple-darwin", f"{one}.0") for one in (11, 12, 13, 14, 15, 26)),
    ),
)

Resolves = Callable[[Sequence[str]], bool]
"""Requirements → whether each has a wheel, or a marker that excludes it."""


class IndexUnavailable(SetupError):
    """The package index did not answer, which is no finding about the packages."""


@dataclass(frozen=True)
class Result:
    """Outcome for a lock file, a platform and a Python: the oldest system, or what has no wheel on the newest."""

    lock: str
    platform: str
    python: str
    oldest: str = ""
    absent: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.oldest or f"no wheel: {', '.join(self.absent)}"


def check() -> int:
    """Check all lock files and print a table for each.

    Returns:
        0 if set-up finds wheels everywhere, ABSENT if not, UNAVAILABLE if the index does not answer.
    """
    lock.ensure_uv()
    results = []
    try:
        for name in LOCKS:
            requirements = [*with_wheels(name), node.NODE_WHEEL]
            for platform in PLATFORMS:
                with step(f"requirements/{name}.txt on {platform.name}"):
                    results += [check_platform(name, requirements, platform, python) for python in PYTHONS]
    except IndexUnavailable as error:
        print(f"\n{error}")
        return UNAVAILABLE
    for name in LOCKS:
        print(f"\nrequirements/{name}.txt\n\n{table([one for one in results if one.lock == name])}")
        if sources := SOURCE_ONLY.get(name):
            print(f"\nNot checked, since they exist as source only: {', '.join(sources)}.")
    return ABSENT if any(one.absent for one in results) else 0


def locked(text: str) -> list[str]:
    """Requirements of a lock file."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def with_wheels(name: str) -> list[str]:
    """Requirements of a lock file, without those that exist as source only."""
    requirements = locked((ROOT / "requirements" / f"{name}.txt").read_text("utf-8"))
    return [one for one in requirements if one.partition("==")[0] not in SOURCE_ONLY.get(name, ())]


def check_platform(name: str, requirements: Sequence[str], platform: Platform, python: str) -> Result:
    """Find the oldest system on which all `requirements` have wheels. Raises IndexUnavailable."""
    for system in platform.systems:
        if resolves(requirements, system, python):
            return Result(name, platform.name, python, oldest=system.version)
    newest = platform.systems[-1]
    absent = without_wheel(requirements, lambda some: resolves(some, newest, python))
    return Result(name, platform.name, python, absent=tuple(absent))


def without_wheel(requirements: Sequence[str], resolves: Resolves) -> list[str]:
    """Requirements that do not resolve on their own, found by halving: most lists hold none."""
    if not requirements or resolves(requirements):
        return []
    if len(requirements) == 1:
        return [requirements[0].partition(";")[0].strip()]
    middle = len(requirements) // 2
    return [
        *without_wheel(requirements[:middle], resolves),
        *without_wheel(requirements[middle:], resolves),
    ]


def resolves(requirements: Sequence[str], system: System, python: str, uv: Path = lock.UV) -> bool:
    """Whether uv finds a wheel for each of the `requirements`. Raises IndexUnavailable."""
    options = ["--no-deps", "--only-binary", ":all:", "--python-platform", system.uv_platform]
    environment = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    if system.deployment_target:
        environment["MACOSX_DEPLOYMENT_TARGET"] = system.deployment_target
    done = subprocess.run(
        [str(uv), "pip", "compile", "-", *options, "--python-version", python],
        input="\n".join(requirements),
        env=environment,
        capture_output=True,
        text=True,
    )
    if done.returncode == 0:
        return True
    if UNSATISFIABLE in done.stderr:
        return False
    raise IndexUnavailable(
        "The package index did not answer: check the network, or name another one (UV_DEFAULT_INDEX). This is no "
        f"finding about the packages.\n{done.stderr.strip()[-400:]}"
    )


def table(results: Sequence[Result]) -> str:
    """Markdown table of one lock file: a row for each platform, a column for each Python."""
    rows = [["platform", *(f"Python {python}" for python in PYTHONS)], ["---"] * (len(PYTHONS) + 1)]
    for platform in dict.fromkeys(result.platform for result in results):
        cells = {result.python: str(result) for result in results if result.platform == platform}
        rows.append([platform, *(cells.get(python, "") for python in PYTHONS)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
