"""GPU benchmark: imports, peak FLOPS lookup, full-length responses of both samplers."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from bench import gpu

ROOT = Path(__file__).resolve().parents[2]
LOADED = """
import sys
import bench.gpu, bench.lib.workers.our_worker, bench.lib.workers.plain_worker
print(sorted({"numba", "django", "celery", "channels", "pyarrow", "bm25s"} & set(sys.modules)))
"""


def settings(**changed: object) -> argparse.Namespace:
    known = {
        "shape": "tiny",
        "device": "cpu",
        "dtype": "float32",
        "trajectories": 8,
        "turns": 2,
        "read": 6,
        "seen": 3,
        "written": 4,
    }
    return argparse.Namespace(**(known | changed))


def test_it_runs_without_the_site_and_environment_packages() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(
    "name, tera",
    [
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA L4", 121),
        ("NVIDIA L40S", 362),
        ("NVIDIA A10G", None),
        ("NVIDIA GeForce RTX 4090", 165),
        ("CPU", None),
    ],
)
def test_peak_flops_are_looked_up_by_full_device_name(name: str, tera: float | None) -> None:
    assert gpu.peak_of(name) == (None if tera is None else tera * 1e12)


def test_both_samplers_generate_every_response_at_full_length() -> None:
    lines = gpu.Rollout(settings()).measure(1)
    assert [line["name"] for line in lines] == ["Echoscope", "transformers generate"]
    assert all(line["tokens"] == 8 * 2 * 4 and line["seconds"] > 0 for line in lines)
    assert lines[0]["ratio"] == 1


def test_a_missing_gpu_is_reported_with_advice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench.gpu"])
    monkeypatch.setattr(gpu.torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit):
        gpu.main()
    assert "--device cpu" in capsys.readouterr().err


def test_missing_packages_are_named_with_the_install_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench.gpu", "--device", "cpu", "--quick"])
    monkeypatch.setattr(gpu, "missing", lambda: ["peft"])
    with pytest.raises(SystemExit):
        gpu.main()
    assert "pip install peft" in capsys.readouterr().err


def test_tables_omit_mfu_for_an_unknown_peak() -> None:
    line = {"name": "x", "tokens": 100, "seconds": 2.0, "ratio": 1.0, "peak": 2.0**20, "mfu": None}
    shown = gpu.tables(settings(), [line], [line, line | {"mfu": 0.412}])
    assert "| 50 | 2.000 s | – |" in shown
    assert "41.2%" in shown
