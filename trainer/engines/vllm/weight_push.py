"""Weights pushed to remote vLLM servers, through a shared folder."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from torch import Tensor

from trainer.config.engine import WEIGHTS_VARIABLE
from trainer.engines.vllm.vllm_client import VllmServer
from trainer.engines.vllm.weight_files import write_weights


class WeightPush:
    """Pushes each version of a policy's weights to all servers.

    Args:
        run_folder: folder of the run, if any; weights are written there unless the environment names another folder.
        servers: connected servers.
    """

    def __init__(self, run_folder: Path | None, servers: Sequence[VllmServer]) -> None:
        default = str(run_folder / "weights") if run_folder else tempfile.gettempdir()
        parent = os.environ.get(WEIGHTS_VARIABLE) or default
        self.folder = Path(parent).resolve() / secrets.token_hex(4)
        self.servers = servers
        self.version = 0

    def push(self, weights: Mapping[str, Tensor]) -> None:
        """Let all servers load the weights, and delete the files of the previous version.

        Raises:
            ServerError: a server stays unavailable, or does not accept weights.
        """
        old = self.folder / str(self.version)
        self.version += 1
        new = self.folder / str(self.version)
        write_weights(weights, new)
        name = f"{self.folder.name}-{self.version}"
        with ThreadPoolExecutor(len(self.servers)) as pool:
            list(pool.map(lambda server: server.load_weights(str(new), name), self.servers))
        shutil.rmtree(old, ignore_errors=True)

    def close(self) -> None:
        """Delete all files."""
        shutil.rmtree(self.folder, ignore_errors=True)
