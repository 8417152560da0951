"""Virtual environment .venv-adapters for tests with the packages of environment adapters (requirements/adapters.txt).

They are installed beside Echoscope's own packages, as by a user who adds an extra: the environment sees the packages of
.venv, PyTorch among them, and holds only those that .venv lacks. In .venv itself they would make each set-up slower.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from bootstrap import machine, stamp
from bootstrap.packages import LOG, PYTHON, ROOT, explain_pip, explain_venv
from bootstrap.progress import SetupError, run, step

VENV = ROOT / ".venv-adapters"
VENV_PYTHON = VENV / "bin" / "python"
REQUIREMENTS = ROOT / "requirements" / "adapters.txt"
BESIDE = ROOT / "requirements" / "dev.txt"
SPACE = 2 * machine.GIB
PATH_FILE = "packages-of-echoscope.pth"
_FOLDERS = """
import platform, sysconfig
print(platform.python_version(), *sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}), sep="\\n")
"""
_HEADER = "import pathlib, sysconfig; print(pathlib.Path(sysconfig.get_path('include'), 'Python.h').exists())"
NO_COMPILER = """\
The tests of environment adapters need a C compiler and the header files of Python: pycosat, which reasoning-gym needs,
exists as source only. They did NOT run. Install both (Debian, Ubuntu: sudo apt-get install gcc libc6-dev {headers};
macOS: xcode-select --install) and run `make test-adapters`; every other test runs here with `make test-fast`."""


def ensure() -> None:
    """Install what requirements/adapters.txt has beyond .venv, which is set up for tests. Fast if nothing changed.

    Raises:
        SetupError: the disk is full, there is no C compiler, or a package is unavailable.
    """
    version, *folders = _interpreter(PYTHON)
    marker, digest = VENV / ".installed", stamp.digest([REQUIREMENTS, BESIDE, version, *folders])
    if stamp.is_current(marker, digest) and _runs():
        return
    machine.require_space(ROOT, SPACE, "to install the packages of environment adapters")
    ensure_compiler(version)
    shutil.rmtree(VENV, ignore_errors=True)
    with step("Creating a virtual environment for the packages of environment adapters") as line:
        code, output = run([str(PYTHON), "-m", "venv", "--without-pip", str(VENV)], LOG, line)
        if code:
            shutil.rmtree(VENV, ignore_errors=True)
            raise SetupError(explain_venv(output))
        _, *own = _interpreter(VENV_PYTHON)
        (Path(own[0]) / PATH_FILE).write_text("\n".join(folders) + "\n", encoding="utf-8")
    with step("Installing reasoning-gym, TextArena, verifiers and OpenEnv") as line:
        # Without dependencies: the list is complete. pip is that of .venv, and leaves alone what is there already.
        words = ["install", "--no-compile", "--no-deps", "-r", str(REQUIREMENTS)]
        code, output = run([str(VENV_PYTHON), "-m", "pip", "--disable-pip-version-check", *words], LOG, line)
        if code:
            raise SetupError(explain_pip(output))
    stamp.write(marker, digest)


def ensure_compiler(version: str) -> None:
    """Install a C compiler and Python's header files if they are missing, on Debian as root. Raises SetupError."""
    if _compiles():
        return
    headers = f"python{'.'.join(version.split('.')[:2])}-dev"
    if machine.is_debian() and machine.is_root():
        with step("Installing a C compiler for reasoning-gym") as line:
            quiet = {"DEBIAN_FRONTEND": "noninteractive"}
            run(["apt-get", "update"], LOG, line, env=quiet)
            for packages in (["gcc", "libc6-dev"], [headers]):  # some Pythons bring their header files
                run(["apt-get", "install", "-y", "--no-install-recommends", *packages], LOG, line, env=quiet)
    if not _compiles():
        raise SetupError(NO_COMPILER.format(headers=headers))


def _compiles() -> bool:
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    done = subprocess.run([str(PYTHON), "-c", _HEADER], capture_output=True, text=True)
    return compiler is not None and done.stdout.strip() == "True"


def _interpreter(python: Path) -> list[str]:
    """Version of a Python and the folders of its packages. Raises SetupError if it does not run."""
    done = subprocess.run([str(python), "-c", _FOLDERS], capture_output=True, text=True)
    if done.returncode:
        raise SetupError(f"{python} does not run: remove its folder (`make clean`), try again.\n{done.stderr[-400:]}")
    return done.stdout.splitlines()


def _runs() -> bool:
    """Whether it works, with its own packages and those of .venv."""
    code = "from importlib.util import find_spec; assert all(map(find_spec, ('textarena', 'torch', 'pytest')))"
    argv = [str(VENV_PYTHON), "-c", code]
    return VENV_PYTHON.exists() and subprocess.run(argv, capture_output=True).returncode == 0
