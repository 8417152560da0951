"""Descriptions of machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainer.studies import machine


@pytest.mark.parametrize("runs", [True, False])
def test_it_names_the_gpus_and_whether_processes_share_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: bool
) -> None:
    monkeypatch.setattr(machine, "gpu_names", lambda: ["NVIDIA H200", "NVIDIA H200"])
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    if runs:
        (tmp_path / "control").touch()
    parts = machine.describe().split(", ")
    assert parts[0] == "2 × NVIDIA H200"
    assert ("NVIDIA MPS" in parts) == runs


def test_it_does_not_speak_of_mps_without_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "gpu_names", list)
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    (tmp_path / "control").touch()
    assert "MPS" not in machine.describe()
