"""Weights reach every server through a folder, version by version. The servers of tests/vllm are real."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from trainer.config.engine import WEIGHTS_VARIABLE
from trainer.engines.vllm.vllm_client import ServerError
from trainer.engines.vllm.weight_push import WeightPush


class Server:
    """Loads weights as vLLM does, while all other servers do the same."""

    def __init__(self, together: threading.Barrier) -> None:
        self.together = together
        self.loaded: list[tuple[float, str]] = []

    def load_weights(self, folder: str, version: str) -> None:
        self.together.wait(10)
        self.loaded.append((load_file(f"{folder}/model.safetensors")["layer"].item(), version))


def pushed(folder: Path, count: int = 2) -> tuple[WeightPush, Any]:
    together = threading.Barrier(count)
    servers: Any = [Server(together) for _ in range(count)]
    return WeightPush(folder, servers), servers


def test_every_server_loads_each_version_and_files_of_earlier_ones_are_deleted(tmp_path: Path) -> None:
    push, servers = pushed(tmp_path)
    for value in (1.0, 2.0):
        push.push({"layer": torch.tensor([value])})
        assert len(list((tmp_path / "weights").glob("*/*/model.safetensors"))) == 1
    for server in servers:
        (first, before), (second, after) = server.loaded
        assert (first, second) == (1.0, 2.0)
        assert before != after, "a server recognises new weights by their version"
    push.close()
    assert list((tmp_path / "weights").iterdir()) == []


def test_a_refusal_of_one_server_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    push, servers = pushed(tmp_path, count=1)

    def refuse(folder: str, version: str) -> None:
        raise ServerError("it takes no weights")

    monkeypatch.setattr(servers[0], "load_weights", refuse)
    with pytest.raises(ServerError, match="takes no weights"):
        push.push({"layer": torch.zeros(1)})


def test_the_folder_is_that_of_the_variable_or_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WEIGHTS_VARIABLE, raising=False)
    assert pushed(tmp_path)[0].folder.parent == tmp_path / "weights"
    monkeypatch.setenv(WEIGHTS_VARIABLE, str(tmp_path / "variable"))
    assert pushed(tmp_path)[0].folder.parent == tmp_path / "variable"
