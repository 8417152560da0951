"""TRL in a separate virtual environment, with the PyTorch and transformers builds used here: workers/trl_worker.py."""

from __future__ import annotations

import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from bench.lib.peers.env_peers import NotInstallable
from bootstrap import packages
from bootstrap.progress import SetupError

TRL = "trl==1.16.0"


def interpreter(folder: Path | None) -> Path:
    """Return the Python of the environment in `folder`, created and installed if missing; this one without a folder.

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
        try:
            packages.install(home, [f"transformers=={version('transformers')}", TRL])
        except SetupError as error:
            raise NotInstallable(f"not installable: {str(error).splitlines()[0]}") from None
        filled.touch()
    return python.absolute()
