"""Whole iterations of a run, as in `python -m trainer train`, and their memory compared with its estimate."""

from __future__ import annotations

import statistics
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import AutoConfig

from bench.gpu.models import GIB, save_checkpoint
from bench.gpu.options import Settings
from bench.gpu.record import Recorder
from bench.lib.recorded_dialogues import GROUP
from trainer.config.run import RunConfig
from trainer.journal import reader
from trainer.journal.events import Metrics, Notice
from trainer.journal.protocol import JOURNAL_FILE
from trainer.loops import run_factory
from trainer.memory.estimate import estimate_memory
from trainer.policy.shapes import read

TIMES = ("time/rollout", "time/update", "time/other")


def configuration(settings: Settings, model: Path) -> RunConfig:
    """Configure StarPO with an estimator that learns from equal rewards: a random policy is never rewarded."""
    work = settings.workload
    data: dict[str, Any] = {
        "iterations": work.iterations,
        "policy": {"model": str(model), "device": settings.device, "dtype": settings.dtype},
        "rollout": {
            "groups": work.groups,
            "group_size": GROUP,
            "max_turns": work.turns,
            "max_response_tokens": work.responses[1],
        },
        "algorithm": {"estimator": "reinforce_plus_plus", "group_filter": "none", "drop_zero_std": False},
        "optimizer": {
            "policy_lr": 1e-6,
            "mini_batch_trajectories": work.groups * GROUP,
            "micro_batch_tokens": work.micro,
        },
        "evaluation": {"prompts": 0, "every": 0},
        "checkpoint": {"every": 1000},  # a checkpoint is written at the end
    }
    return RunConfig.model_validate(data)


def iteration(settings: Settings, recorder: Recorder) -> None:
    """Measure seconds of the phases of an iteration, and the run's peak memory against its estimate."""
    with TemporaryDirectory(prefix="echoscope-gpu-") as name:
        folder = Path(name)
        model = save_checkpoint(settings, folder / "model")
        if settings.device == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        config = configuration(settings, model)
        end = run_factory.run(config, folder / "run", folder / "cache")
        if end.reason != "completed":
            raise RuntimeError(f"the run ended: {end}")
        events = list(reader.read(folder / "run" / JOURNAL_FILE))
        iterations = [event for event in events if isinstance(event, Metrics) and TIMES[0] in event.values]
        values = [event.values for event in iterations]
        counted = values[1:] or values  # the first iteration loads kernels
        recorder.add(
            f"an iteration of {settings.workload.groups * GROUP} trajectories",
            **{name: statistics.median(value[name] for value in counted) for name in TIMES},
            **{"sampled tokens": iterations[-1].tokens / len(iterations)},
            **{"k3": statistics.median(value["mismatch/k3"] for value in counted)},
        )
        for event in events:
            if isinstance(event, Notice):
                recorder.add("notice", result=event.message)
        if settings.device == "cuda":
            _memory(settings, recorder, config, model)


def _memory(settings: Settings, recorder: Recorder, config: RunConfig, model: Path) -> None:
    shape = read(AutoConfig.from_pretrained(model).to_dict())
    assert shape is not None
    estimate = estimate_memory(config, shape, gpu=True)
    free, total = torch.cuda.mem_get_info()
    reserved, allocated = torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated()
    outside = total - free - torch.cuda.memory_reserved()
    recorder.add(
        "memory",
        **{
            "estimate GiB": estimate.peak / GIB,
            "allocated GiB": allocated / GIB,
            "reserved GiB": reserved / GIB,
            "CUDA itself GiB": outside / GIB,
            "estimate / (allocated + CUDA)": estimate.peak / (allocated + outside),
            "estimate / (reserved + CUDA)": estimate.peak / (reserved + outside),
        },
    )
