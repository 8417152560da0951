"""Time to bring new weights to the engine that samples."""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from bench.gpu.models import GIB, save_checkpoint
from bench.gpu.options import Settings
from bench.gpu.record import Recorder
from trainer.config.run import PolicyConfig, RunConfig
from trainer.policy.load import load
from trainer.policy.weights import VersionedWeights

REPEATS = 5


def push(settings: Settings, recorder: Recorder) -> None:
    """Measure milliseconds of a copy to the host and back into a model (rollout actors), and of a push to vLLM."""
    with TemporaryDirectory(prefix="echoscope-gpu-") as name:
        folder = save_checkpoint(settings, Path(name) / "model")
        policy = load(folder, PolicyConfig(device=settings.device, dtype=settings.dtype))
        copied = VersionedWeights.of(policy.model, 1)
        for what, action in {
            "copy to the host": lambda: VersionedWeights.of(policy.model, 1),
            "load into a model": lambda: copied.load_into(policy.model),
        }.items():
            recorder.add(what, **_timed(action, settings.device), **{"GiB": copied.size / GIB})
        if importlib.util.find_spec("vllm") is None:
            recorder.add("push to vLLM", result="not measured: vLLM is not installed")
            return
        from trainer.engines.vllm.vllm_sampler import VllmSampler

        config = RunConfig.model_validate(
            {
                "policy": {"model": str(folder), "device": settings.device, "dtype": settings.dtype},
                "engine": {"name": "vllm"},
                "algorithm": {"tis_cap": 2},
            }
        )
        sampler = VllmSampler(config, policy, policy.tokenizer.eos_token_id)
        try:
            sampler.engine.push()
            recorder.add("push to vLLM", **_timed(sampler.engine.push, settings.device), **{"GiB": copied.size / GIB})
        finally:
            sampler.close()


def _timed(action: Callable[[], object], device: str) -> dict[str, float]:
    took = []
    for _ in range(REPEATS):
        if device == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        action()
        if device == "cuda":
            torch.cuda.synchronize()
        took.append(1000 * (time.perf_counter() - began))
    return {"ms": statistics.median(took)}
