"""Choice of the torch build: CUDA with an NVIDIA GPU, else the CPU build, which is gigabytes smaller.

On Linux the default torch of PyPI includes CUDA; some package indexes offer a CPU build instead. So the metadata of the
index is checked first, and PyTorch's own CPU index is the second choice.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Callable
from typing import Any

from bootstrap import machine
from bootstrap.progress import SetupError

VERSION = "2.13.0"
REQUIREMENT = f"torch=={VERSION}"
INDEX_VARIABLE = "ECHOSCOPE_TORCH_INDEX"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"

Report = dict[str, Any]
Query = Callable[[list[str]], Report | None]
"""Arguments of pip → its report of what it would install; None if unavailable."""

NO_CPU_BUILD = f"""\
PyTorch {VERSION} without CUDA is not available: this machine has no NVIDIA GPU, the package index only offers the
build with CUDA (several gigabytes), and PyTorch's own index of CPU builds is unreachable:
  {CPU_INDEX}
Nothing was downloaded. Do one of these and run the same command again:
  · connect to the internet, or allow that address in the proxy;
  · name a mirror of the CPU builds: ECHOSCOPE_TORCH_INDEX=https://… make demo
  · install the build with CUDA anyway: ECHOSCOPE_TORCH=cuda make demo"""

NO_INDEX = f"""\
PyTorch {VERSION} was not found: either the package index is unreachable (check network and proxy), or it has no
build for Python {platform.python_version()} on {platform.system()} {platform.machine()}.
Nothing was changed. Check with `{{pip}} download --no-deps {REQUIREMENT}`, then run the same command again; another
Python is chosen with PYTHON=python3.12."""


def arguments(query: Query, gpu: bool | None = None, pip: str = "pip") -> list[str]:
    """Arguments of `pip install` for the right torch build. Raises SetupError if it is not available."""
    cuda = wants_cuda(gpu)
    if index := os.environ.get(INDEX_VARIABLE):
        return ["--index-url", index, REQUIREMENT]
    if cuda:
        return [REQUIREMENT]
    offered = query([REQUIREMENT])
    if offered is not None and not requires_cuda(offered):
        return [REQUIREMENT]
    cpu = ["--index-url", CPU_INDEX, REQUIREMENT]
    if query(cpu) is not None:
        return cpu
    raise SetupError(NO_INDEX.format(pip=pip) if offered is None else NO_CPU_BUILD)


def wants_cuda(gpu: bool | None = None) -> bool:
    """Whether the build with CUDA is wanted: ECHOSCOPE_TORCH decides, else an NVIDIA GPU. Raises SetupError."""
    requested = os.environ.get("ECHOSCOPE_TORCH", "").lower()
    if requested not in {"", "cpu", "cuda"}:
        raise SetupError(f"ECHOSCOPE_TORCH must be cpu or cuda (or not set), not {requested!r}.")
    return requested == "cuda" or (requested == "" and (machine.has_nvidia_gpu() if gpu is None else gpu))


def description() -> str:
    """The build that `arguments` chooses, in words."""
    if os.environ.get(INDEX_VARIABLE):
        return f"from {INDEX_VARIABLE}"
    return "CUDA build, several gigabytes" if wants_cuda() else "CPU build, about 200 MB"


def requires_cuda(report: Report) -> bool:
    """Whether the reported torch requires NVIDIA's packages on this machine."""
    requirements = report["install"][0]["metadata"].get("requires_dist", [])
    return any(_is_nvidia(text) and _applies(text) for text in requirements)


def _is_nvidia(requirement: str) -> bool:
    return bool(re.match(r"(nvidia|cuda)[-_]", requirement, re.IGNORECASE))


def _applies(requirement: str) -> bool:
    """Whether the marker applies, roughly; a false positive only costs a query of the CPU index."""
    _, _, marker = requirement.partition(";")
    if "extra" in marker:
        return False
    systems = re.findall(r"(?:platform_system|sys_platform)\s*==\s*['\"](\w+)['\"]", marker)
    machines = re.findall(r"platform_machine\s*==\s*['\"](\w+)['\"]", marker)
    here = {platform.system(), sys.platform}
    return (not systems or bool(here & set(systems))) and (not machines or platform.machine() in machines)


def parse_report(text: str) -> Report | None:
    """pip's report in its output; None if there is none."""
    start = text.find("{")
    if start < 0:
        return None
    report: Report = json.loads(text[start:])
    return report if report.get("install") else None
