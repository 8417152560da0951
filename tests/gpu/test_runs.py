"""Runs on a GPU: a preset, several processes, sharding, and vLLM where it is installed."""

from __future__ import annotations

import importlib.util
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.gpu.conftest import pocket
from tests.gpu.dialogues import SGD, apart, config, recorded, step_of
from trainer.config.files import load_preset, with_overrides
from trainer.config.run import RunConfig
from trainer.journal import reader
from trainer.journal.events import Metrics, RunStarted
from trainer.journal.protocol import JOURNAL_FILE
from trainer.loops import run_factory
from trainer.paths import POCKET_CHECKPOINT

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("extra", [(), ("policy.dtype=bfloat16", "optimizer.name=adamw_fused")])
def test_two_iterations_of_a_pocket_preset(tmp_path: Path, extra: tuple[str, ...]) -> None:
    changes = [
        "iterations=2",
        "policy.device=cuda",
        f"policy.model={POCKET_CHECKPOINT}",
        "evaluation.prompts=4",
        *extra,
    ]
    run = with_overrides(load_preset("sokoban-starpo_s-pocket"), changes)
    end = run_factory.run(run, tmp_path / "run", tmp_path / "cache")
    assert end.reason == "completed"
    events = list(reader.read(tmp_path / "run" / JOURNAL_FILE))
    started = next(event for event in events if isinstance(event, RunStarted))
    assert torch.cuda.get_device_name() in started.device
    metrics = [event.values for event in events if isinstance(event, Metrics) and "time/rollout" in event.values]
    assert len(metrics) == 2
    assert all(values["system/gpu_reserved_bytes"] > 0 for values in metrics)
    assert all(math.isfinite(value) for values in metrics for value in values.values())
    learned = [values["mismatch/k3"] for values in metrics if "update/steps" in values]
    assert learned
    assert max(learned) < (0.1 if extra else 1e-6)


def launch(processes: int, backend: str, sharding: str, out: Path) -> dict[str, torch.Tensor]:
    """What rank 0 of `tests.gpu.rank_script` saved."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command = [*launcher, "-m", "tests.gpu.rank_script", backend, sharding, str(out)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, torch.Tensor] = torch.load(out, weights_only=True)
    return found


@pytest.mark.parametrize(
    ("processes", "backend", "sharding"), [(2, "gloo", "none"), (1, "nccl", "full"), (1, "nccl", "none")]
)
def test_processes_take_the_same_step_as_one(tmp_path: Path, processes: int, backend: str, sharding: str) -> None:
    """Two of them share the GPU, so they exchange tensors over gloo: NCCL refuses two ranks on one GPU."""
    logprobs, step = step_of(pocket("cuda"), config(optimizer=SGD), recorded())
    found = launch(processes, backend, sharding, tmp_path / "found.pt")
    assert float((found["logprobs"] - logprobs).abs().max()) < 1e-3
    assert apart(step, found["step"]) < 1e-2


@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed")
def test_vllm_samples_with_the_weights_that_were_pushed() -> None:
    from tests.vllm.shapes import k3, sample
    from trainer.engines.sampler import SamplingParams
    from trainer.engines.vllm.vllm_sampler import VllmSampler

    policy = pocket("cuda")
    run = RunConfig.model_validate(
        {
            "policy": {"device": "cuda"},
            "engine": {"name": "vllm", "gpu_memory_utilization": 0.3},
            "algorithm": {"tis_cap": 2},
        }
    )
    prompts = [row[:80].tolist() for row in recorded().ids]
    sampler = VllmSampler(run, policy, int(policy.tokenizer.eos_token_id))
    try:
        drawn = SamplingParams(max_tokens=24)
        on_cpu = pocket("cpu")
        assert k3(on_cpu, prompts, sample(sampler, prompts, drawn)) < 1e-3
        with torch.no_grad():
            for weight in policy.model.parameters():
                weight.mul_(1.1)
        on_cpu.model.load_state_dict({name: value.cpu() for name, value in policy.model.state_dict().items()})
        before = k3(on_cpu, prompts, sample(sampler, prompts, drawn))
        sampler.weights_updated()
        assert k3(on_cpu, prompts, sample(sampler, prompts, drawn)) < 1e-3 < before
    finally:
        sampler.close()
