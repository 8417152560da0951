"""The parts of the GPU benchmark, the most telling first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from bench.gpu.agreement_part import agreement, mismatch
from bench.gpu.iteration_part import iteration
from bench.gpu.options import LARGE, Settings
from bench.gpu.profile_part import profile_steps
from bench.gpu.push_part import push
from bench.gpu.record import Recorder
from bench.gpu.rollout_part import rollout
from bench.gpu.update_part import COMPILED, DEFAULT, RECOMPUTED, update, update_large_batch


@dataclass(frozen=True)
class Part:
    """A part: its measurement, and the seconds after which it starts no further round."""

    run: Callable[[Settings, Recorder], None]
    seconds: float


def large(settings: Settings, recorder: Recorder) -> None:
    """Measure a larger model: our sampler compared with `generate`, and the update with all gains."""
    larger = replace(settings, shape=LARGE.get(settings.shape, settings.shape), rounds=min(settings.rounds, 2))
    rollout(larger, recorder, rounds=1)
    if settings.device == "cuda":
        torch.cuda.empty_cache()
    update(larger, recorder, names=(DEFAULT, COMPILED, RECOMPUTED))


PARTS: dict[str, Part] = {
    "agreement": Part(agreement, 60),
    "rollout": Part(rollout, 100),
    "update": Part(update, 120),
    "iteration": Part(iteration, 80),
    "mismatch": Part(mismatch, 40),
    "update-64k": Part(update_large_batch, 80),
    "large": Part(large, 80),
    "push": Part(push, 60),
    "profile": Part(profile_steps, 60),
}
