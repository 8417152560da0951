"""Which build of torch to take: CUDA where there is an NVIDIA GPU, else the CPU build; never gigabytes by accident.

On Linux the package index's ordinary torch brings CUDA along; some indexes offer a CPU build in its place. So the index
is asked first (metadata only), and PyTorch's own CPU index is the second choice.
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
CPU_INDEX = "https://download.pytorch.org/whl/cpu"

Report = dict[str, Any]
Ask = Callable[[list[str]], Report | None]
"""Arguments for pip → its report of what it would install; None when it cannot be had."""

NEITHER = f"""\
PyTorch {VERSION} without CUDA cannot be had: this machine has no NVIDIA GPU, the package index only offers the build
with CUDA (several gigabytes), and PyTorch's own index of CPU builds cannot be reached:
  {CPU_INDEX}
Nothing was downloaded. Do one of these and run the same command again:
  · connect to the internet, or let the proxy pass that address;
  · name a mirror of the CPU builds: ECHOSCOPE_TORCH_INDEX=https://… make demo
  · take the build with CUDA all the same: ECHOSCOPE_TORCH=cuda make demo"""

NO_INDEX = f"""\
PyTorch {VERSION} was not found: either the package index cannot be reached (is there a network? a proxy?), or it has no
build of it for Python {platform.python_version()} on {platform.system()} {platform.machine()}.
Nothing was changed. Check with `{{pip}} download --no-deps {REQUIREMENT}`, then run the same command again; another
Python is chosen with PYTHON=python3.12."""


def arguments(ask: Ask, gpu: bool | None = None, pip: str = "pip") -> list[str]:
    """What to tell `pip install` to get the right torch. Raises SetupError when only a wrong one can be had."""
    wish = os.environ.get("ECHOSCOPE_TORCH", "").lower()
    if wish not in {"", "cpu", "cuda"}:
        raise SetupError(f"ECHOSCOPE_TORCH must be cpu or cuda (or not set), not {wish!r}.")
    index = os.environ.get("ECHOSCOPE_TORCH_INDEX")
    if index:
        return ["--index-url", index, REQUIREMENT]
    cuda = wish == "cuda" or (wish == "" and (machine.has_nvidia_gpu() if gpu is None else gpu))
    if cuda:
        return [REQUIREMENT]
    offered = ask([REQUIREMENT])
    if offered is not None and not brings_cuda(offered):
        return [REQUIREMENT]
    cpu = ["--index-url", CPU_INDEX, REQUIREMENT]
    if ask(cpu) is not None:
        return cpu
    raise SetupError(NO_INDEX.format(pip=pip) if offered is None else NEITHER)


def brings_cuda(report: Report) -> bool:
    """Whether the torch that pip reported would pull NVIDIA's packages onto this machine."""
    requirements = report["install"][0]["metadata"].get("requires_dist", [])
    return any(_is_nvidia(text) and _applies(text) for text in requirements)


def _is_nvidia(requirement: str) -> bool:
    return bool(re.match(r"(nvidia|cuda)[-_]", requirement, re.IGNORECASE))


def _applies(requirement: str) -> bool:
    """A rough reading of the marker, towards "it applies": a wrong yes only costs a look at the CPU index."""
    _, _, marker = requirement.partition(";")
    if "extra" in marker:
        return False
    systems = re.findall(r"(?:platform_system|sys_platform)\s*==\s*['\"](\w+)['\"]", marker)
    machines = re.findall(r"platform_machine\s*==\s*['\"](\w+)['\"]", marker)
    here = {platform.system(), sys.platform}
    return (not systems or bool(here & set(systems))) and (not machines or platform.machine() in machines)


def parse_report(text: str) -> Report | None:
    """pip's report out of its output, None if there is none."""
    start = text.find("{")
    if start < 0:
        return None
    report: Report = json.loads(text[start:])
    return report if report.get("install") else None
