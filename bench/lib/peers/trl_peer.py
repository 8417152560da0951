"""TRL in its own virtual environment, with the PyTorch and transformers builds used here: workers/trl_worker.py."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from bench.lib.peers.env_peers import REQUEST_TIMEOUT, NotInstallable, clean_environment, run
from bootstrap import torch_build
from bootstrap.progress import SetupError

TRL = "trl==1.16.0"


def interpreter(folder: Path | None) -> Path:
    """The Python of the environment below `folder`, created and installed if missing; without a folder this one.

    Raises:
        NotInstallable: no folder, and TRL is not installed here.
    """
    if folder is None and find_spec("trl") is not None:
        return Path(sys.executable)
    if folder is None:
        raise NotInstallable("not requested (give --peers DIR)")
    home = folder / "TRL"
    python, filled = home / "bin" / "python", home / "installed"
    if not filled.exists():
        run(sys.executable, "-m", "venv", str(home))
        try:
            torch = torch_build.arguments(lambda words: _ask(python, words), pip=f"{python} -m pip")
        except SetupError as error:
            raise NotInstallable(f"not installable: {str(error).splitlines()[0]}") from None
        run(str(python), "-m", "pip", "install", "--quiet", *torch)
        run(str(python), "-m", "pip", "install", "--quiet", f"transformers=={version('transformers')}", TRL)
        filled.touch()
    return python.absolute()


def _ask(python: Path, words: list[str]) -> torch_build.Report | None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps", "--report", "-", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=REQUEST_TIMEOUT, env=clean_environment())
    return torch_build.parse_report(done.stdout)
