"""Profiles of an update and a rollout: how busy the GPU is, and its longest kernels."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from bench.gpu.options import Settings
from bench.gpu.record import Recorder
from bench.gpu.rollout_part import workload
from bench.gpu.update_part import COMPILED, DEFAULT, PLAIN, UNSHARED, Updates, get_changes, plain, void
from bench.lib.rollout_workload import OurSampler

LONGEST = 12
"""Kernels, and operations of the host, that are listed for each."""
WARM = 3


def profile_steps(settings: Settings, recorder: Recorder) -> None:
    """Profile an update in several forms and a rollout, each after a few uncounted ones."""
    updates = Updates(settings, settings.workload.tokens[0])
    for name in (DEFAULT, COMPILED, UNSHARED, PLAIN):
        if settings.variants and name not in settings.variants:
            continue
        with recorder.attempt(name):
            if name == PLAIN:
                _profile(recorder, name, plain(settings, updates.dialogues), settings.device)
            else:
                _profile(recorder, name, updates.step(*get_changes(updates, name)), settings.device)
    with recorder.attempt("rollout"):
        sampler, work = OurSampler(updates.model), workload(settings, turns=1)
        updates.model.config._attn_implementation = "row_by_row" if settings.device == "cuda" else "sdpa"
        _profile(recorder, "rollout", lambda: void(sampler.play(work)), settings.device, warm=1)


def _profile(recorder: Recorder, name: str, run: Callable[[], None], device: str, warm: int = WARM) -> None:
    """Profile one run; its seconds are taken from the run before it, without the profiler."""
    for _ in range(warm):
        _wait(device)
        began = time.perf_counter()
        run()
        _wait(device)
        seconds = time.perf_counter() - began
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device == "cuda")
    with profile(activities=activities) as profiler:
        run()
        _wait(device)
    kernels: defaultdict[str, list[float]] = defaultdict(list)
    for event in profiler.events() or []:
        if event.device_type == DeviceType.CUDA and not event.is_user_annotation:
            kernels[event.name].append(event.device_time_total / 1e6)
    busy = sum(sum(times) for times in kernels.values())
    count = sum(len(times) for times in kernels.values())
    figures: dict[str, float | str | None] = {"seconds": seconds, "GPU busy": f"{busy / seconds:.0%}", "kernels": count}
    recorder.add(name, **figures)
    for kernel, times in sorted(kernels.items(), key=lambda item: -sum(item[1]))[:LONGEST]:
        recorder.add(f"{name}: {kernel[:90]}", **{"seconds": sum(times), "kernels": len(times)})
    averages = sorted(profiler.key_averages(), key=lambda entry: -entry.self_cpu_time_total)
    for entry in averages[:LONGEST]:
        seconds = entry.self_cpu_time_total / 1e6
        recorder.add(f"{name}, host: {entry.key[:80]}", **{"seconds": seconds, "kernels": entry.count})


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
