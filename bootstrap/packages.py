"""Virtual environment and its Python packages, pinned in requirements/."""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

from bootstrap import machine, stamp, torch_build
from bootstrap.progress import SetupError, Step, run, step

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOG = ROOT / "var" / "log" / "setup.log"
SPACE_CPU = 4 * machine.GIB
SPACE_CUDA = 14 * machine.GIB
LARGER = {"run": ["dev"]}
"""Requirement sets that include another one."""
PIP = "pip==26.3"
PIP_MINIMUM = (24, 1)  # older ones download a whole wheel where its metadata would do


def ensure(extra: str) -> None:
    """Install requirements/<extra>.txt into .venv. Fast if nothing changed."""
    sufficient = [extra, *LARGER.get(extra, [])]
    if any(stamp.is_current(_marker(name), _digest(name)) for name in sufficient) and _runs():
        return
    if VENV.exists() and not _runs():
        with step("Removing a virtual environment whose Python is gone or too old"):
            shutil.rmtree(VENV)
    if not (VENV / "lib").exists() or not _has("torch"):
        machine.require_space(ROOT, SPACE_CUDA if torch_build.wants_cuda() else SPACE_CPU, "to install Echoscope")
    if not PYTHON.exists():
        create()
    _upgrade_pip()
    ensure_torch()
    with step("Installing the other packages") as line:
        _pip(line, "install", "--no-compile", "-r", str(ROOT / "requirements" / f"{extra}.txt"))
    ensure_ray()
    stamp.write(_marker(extra), _digest(extra))


def _marker(extra: str) -> Path:
    return VENV / f".installed-{extra}"


def _digest(extra: str) -> str:
    return stamp.digest([ROOT / "requirements" / f"{extra}.txt", torch_build.VERSION])


def create() -> None:
    """Create .venv. Raises SetupError, on Debian with the name of the missing package."""
    with step(f"Creating a virtual environment (Python {platform.python_version()})") as line:
        code, output = run([sys.executable, "-m", "venv", str(VENV)], LOG, line)
        if code:
            shutil.rmtree(VENV, ignore_errors=True)
            raise SetupError(explain_venv(output))


def explain_venv(output: str) -> str:
    """Message for a failure of `python -m venv`."""
    if "ensurepip" in output or "No module named venv" in output:
        package = f"python3.{sys.version_info.minor}-venv"
        return (
            f"This Python has no venv module: on Debian and Ubuntu it is a separate package. Install it with `sudo "
            f"apt-get install {package}` (or python3-venv) and run the same command again."
        )
    return f"The virtual environment could not be created in {VENV}:\n{output}"


def ensure_torch() -> None:
    """Install torch first, so that no other package determines its build."""
    if _has("torch"):
        return
    with step("Selecting the PyTorch build") as line:
        chosen = torch_build.arguments(lambda words: _query_pip(words, line), pip=f"{PYTHON} -m pip")
    with step(f"Installing PyTorch {torch_build.VERSION} ({torch_build.description()})") as line:
        _pip(line, "install", "--no-compile", "-c", str(ROOT / "requirements" / "run.txt"), *chosen)


def ensure_ray() -> None:
    """Install Ray on machines with several GPUs: it starts the learners of a run that uses more than one."""
    if machine.nvidia_gpus() < 2:
        return
    with step("Installing Ray, for runs on several GPUs") as line:
        _pip(line, "install", "--no-compile", "-c", str(ROOT / "requirements" / "dev.txt"), "ray")


def _query_pip(words: list[str], line: Step) -> torch_build.Report | None:
    argv = [str(PYTHON), "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps", "--ignore-installed"]
    done = subprocess.run([*argv, "--retries", "1", "--report", "-", *words], capture_output=True, text=True)
    if done.returncode:
        line.detail = done.stderr.strip().splitlines()[-1][:80] if done.stderr.strip() else ""
        return None
    return torch_build.parse_report(done.stdout)


def _runs() -> bool:
    """Whether .venv works, with any supported Python; only `make clean` removes a working one."""
    if not PYTHON.exists():
        return False
    code = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    return subprocess.run([str(PYTHON), "-c", code], capture_output=True).returncode == 0


def _has(package: str) -> bool:
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    process = subprocess.run([str(PYTHON), "-c", code], capture_output=True, text=True)
    return process.stdout.partition("+")[0].strip() == torch_build.VERSION


def _upgrade_pip() -> None:
    process = subprocess.run([str(PYTHON), "-m", "pip", "list", "--format=json"], capture_output=True, text=True)
    versions = {item["name"]: item["version"] for item in json.loads(process.stdout or "[]")}
    numbers = tuple(int(number) for number in re.findall(r"\d+", versions.get("pip", "0"))[:2])
    if numbers < PIP_MINIMUM:
        with step("Upgrading pip") as line:
            _pip(line, "install", PIP)


def _pip(line: Step, *words: str) -> None:
    code, output = run([str(PYTHON), "-m", "pip", "--disable-pip-version-check", *words], LOG, line)
    if code:
        raise SetupError(explain_pip(output))


def explain_pip(output: str) -> str:
    """Message for a failure of pip, from the end of its output."""
    end = "\n".join("  " + line for line in output.splitlines()[-8:])
    retry = "Packages installed so far are kept; run the same command again to continue."
    if "No space left on device" in output:
        return f"The disk is full (pip also needs space in the folder for temporary files, TMPDIR). Free some. {retry}"
    if re.search(r"ConnectionError|NewConnectionError|Temporary failure|Name or service|timed out|Network is", output):
        return f"The package index is unreachable. Check the network (or set HTTPS_PROXY). {retry}\n{end}"
    if "No matching distribution" in output:
        return (
            f"A package has no version for Python {platform.python_version()} on {platform.system()} "
            f"{platform.machine()}. Try another Python: PYTHON=python3.12. {retry}\n{end}"
        )
    return f"A package could not be installed; the complete log is {LOG}. {retry}\n{end}"
