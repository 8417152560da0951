"""What set-up installs on which machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from bootstrap import machine, packages


@pytest.mark.parametrize("gpus", [0, 1, 2, 8])
def test_ray_is_installed_where_a_run_can_use_several_gpus(
    gpus: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(gpus):
        (tmp_path / "gpus" / f"0000:0{number}:00.0").mkdir(parents=True)
    count = machine.nvidia_gpus(tmp_path / "gpus")
    assert count == gpus
    installed: list[str] = []
    monkeypatch.setattr(machine, "nvidia_gpus", lambda: count)
    monkeypatch.setattr(packages, "_pip", lambda line, *words: installed.append(words[-1]))
    packages.ensure_ray()
    assert installed == (["ray"] if gpus > 1 else [])
