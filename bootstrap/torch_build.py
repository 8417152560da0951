"""Choice of the torch build: CUDA with an NVIDIA GPU, else the CPU build, which is gigabytes smaller.

PyPI's torch for Linux includes CUDA; other indexes may offer a CPU build, so what torch requires is checked first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from bootstrap import machine
from bootstrap.progress import SetupError

VERSION = "2.13.0"
REQUIREMENT = f"torch=={VERSION}"
INDEX_VARIABLE = "ECHOSCOPE_TORCH_INDEX"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
NO_CPU_BUILD = f"""\
PyTorch {VERSION} without CUDA is not available: this machine has no NVIDIA GPU, the package index only offers the
build with CUDA (several gigabytes), and PyTorch's own index of CPU builds is unreachable:
  {CPU_INDEX}
Nothing was downloaded. Do one of these and run the same command again:
  · connect to the internet, or allow that address in the proxy;
  · name a mirror of the CPU builds: ECHOSCOPE_TORCH_INDEX=https://… make demo
  · install the build with CUDA anyway: ECHOSCOPE_TORCH=cuda make demo"""


def index(cuda: bool, resolve: Callable[[str], str]) -> str:
    """Return the package index that has the right build; empty for the default index.

    Args:
        cuda: True for the build with CUDA.
        resolve: package index → uv's list of torch's requirements on this machine; raises SetupError if torch is
            missing.

    Raises:
        SetupError: no index has the build.
    """
    if mirror := os.environ.get(INDEX_VARIABLE):
        return mirror
    if cuda or not re.search(r"^ \+ (nvidia|cuda)-", resolve(""), re.MULTILINE):
        return ""
    try:
        resolve(CPU_INDEX)
    except SetupError:
        raise SetupError(NO_CPU_BUILD) from None
    return CPU_INDEX


def wants_cuda() -> bool:
    """Return True if the build with CUDA is wanted: ECHOSCOPE_TORCH decides, else an NVIDIA GPU. Raises SetupError."""
    requested = os.environ.get("ECHOSCOPE_TORCH", "").lower()
    if requested not in {"", "cpu", "cuda"}:
        raise SetupError(f"ECHOSCOPE_TORCH must be cpu or cuda (or not set), not {requested!r}.")
    return requested == "cuda" or (requested == "" and machine.nvidia_gpus() > 0)


def description(cuda: bool) -> str:
    """Return a label of the chosen build, for users."""
    if os.environ.get(INDEX_VARIABLE):
        return f"from {INDEX_VARIABLE}"
    return "CUDA build, several gigabytes" if cuda else "CPU build, about 200 MB"
