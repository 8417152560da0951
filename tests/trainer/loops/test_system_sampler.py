"""System metrics: what is measured, without waiting for a sample, and only for the run's own GPUs."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.patience import SECONDS
from tests.trainer import tiny
from tests.trainer.loops.test_train import events, run
from trainer.journal.events import Metrics
from trainer.loops import system_sampler
from trainer.loops.system_sampler import SystemSampler
from trainer.memory.gpu_usage import parse_gpus
from trainer.metrics.timeline import Timeline

MIB = 2**20
LINES = ["0, GPU-aa, 80, 4000", "1, GPU-bb, 20, 1000", "2, GPU-cc, [N/A], [N/A]"]


def test_the_processes_of_the_run_are_measured_with_their_children(tmp_path: Path) -> None:
    sampler = SystemSampler(tmp_path, Timeline(), gpus=lambda: [(0.8, 4 * MIB), (0.4, MIB)], reserved=lambda: 3 * MIB)
    assert sampler.collect() == {"system/clock_jump_seconds": 0.0}, "nothing else was measured yet"
    sampler.sample()
    alone = sampler.collect()
    assert "system/cpu_percent" not in alone, "one sample measures no time"
    child = subprocess.Popen([sys.executable, "-c", "x = bytearray(100_000_000)\nwhile True: pass"])
    try:
        deadline = time.monotonic() + SECONDS
        while True:
            sampler.sample()
            both = sampler.collect()
            if both["system/memory_bytes"] > alone["system/memory_bytes"] + 80_000_000:
                break
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        child.kill()
        child.wait()
    assert both["system/cpu_percent"] > 0
    assert both["system/memory_available_bytes"] > 0
    assert both["system/disk_free_bytes"] > 0
    assert both["system/gpu_utilization"] == pytest.approx(0.6)
    assert both["system/gpu_memory_bytes"] == 5 * MIB
    assert both["system/gpu_reserved_bytes"] == 3 * MIB
    assert sampler.collect() == both, "an iteration without a sample repeats the last values"
    sampler.sample()
    assert sampler.collect()["system/cpu_percent"] >= 0, "a process that ended does not count backwards"


@pytest.mark.parametrize(("gpus", "reserved"), [([], lambda: 3 * MIB), ([(0.8, 4 * MIB)], None)])
def test_reserved_memory_is_that_of_a_learner_on_a_gpu(
    tmp_path: Path, gpus: list[tuple[float, int]], reserved: Callable[[], int] | None
) -> None:
    """Neither without a GPU nor with learners in other processes."""
    sampler = SystemSampler(tmp_path, Timeline(), gpus=lambda: gpus, reserved=reserved)
    sampler.sample()
    found = sampler.collect()
    assert "system/memory_bytes" in found
    assert "system/gpu_reserved_bytes" not in found


@pytest.mark.parametrize(
    ("visible", "expected"),
    [(None, [0.8, 0.2]), ("1", [0.2]), ("GPU-aa, 1", [0.8, 0.2]), ("", []), ("7", [])],
)
def test_only_visible_gpus_that_report_their_use_are_measured(visible: str | None, expected: list[float]) -> None:
    found = parse_gpus(LINES, visible)
    assert [share for share, _ in found] == expected
    assert all(used in (4000 * MIB, 1000 * MIB) for _, used in found)


def test_a_run_writes_them_with_the_metrics_of_its_iterations(pocket_folder, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(system_sampler, "INTERVAL", 0.05)
    assert run(tiny.config(pocket_folder), tmp_path).reason == "completed"
    learnt = [event.values for event in events(tmp_path, Metrics) if "reward/mean" in event.values]
    assert learnt[-1]["system/memory_bytes"] > MIB
    evaluations = [event.values for event in events(tmp_path, Metrics) if "reward/mean" not in event.values]
    assert not any(name.startswith("system/") for values in evaluations for name in values)
