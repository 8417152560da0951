"""Number of CPU threads of a run with `policy.threads` 0: the fastest number on the machine when the run starts.

Every operation of a model waits for its slowest thread. If other processes are busy, or threads spin, more threads can
be slower than one; it depends on the load, the scheduler and the model, so it is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from transformers import PreTrainedModel

from trainer.engines.transformers.threads import MAX_THREADED_BYTES

BUDGET = 2.0
"""Seconds after which no further round of measurements begins."""
ROUNDS = 3
MIN_GAIN = 1.1
"""Required speed-up of twice as many threads: below it, the cores are worth more to other processes."""
_DECODE_ROWS, _DECODE_STEPS, _LEARNED_TOKENS = 16, 4, 128


def choose_threads(model: PreTrainedModel) -> int:
    """Return the fastest number of threads for a model on this machine, at most PyTorch's current number.

    The current number, which is restored, is the number of cores, or OMP_NUM_THREADS. Small models sample in one
    thread per core without synchronisation, and are not measured. The load average does not help: with sleeping threads
    (OMP_WAIT_POLICY=PASSIVE), two were faster than one even with ten times as many busy processes as cores.
    """
    limit = torch.get_num_threads()
    size = sum(weight.numel() * weight.element_size() for weight in model.parameters())
    if limit == 1 or size <= MAX_THREADED_BYTES:
        return limit
    try:
        _seconds(model, limit)  # warm-up: the first passes also prepare kernels
        return fastest(limit, lambda threads: _seconds(model, threads))
    finally:
        torch.set_num_threads(limit)


def fastest(limit: int, seconds: Callable[[int], float]) -> int:
    """Return the fastest number of threads among `limit` and its halves; a larger number must pay off.

    Args:
        seconds: does the same work with a number of threads, and returns the time it took. Rounds are interleaved, and
            the shortest time of each number counts.
    """
    candidates = [limit]
    while candidates[-1] > 1:
        candidates.append(candidates[-1] // 2)
    candidates.reverse()
    best: dict[int, float] = {}
    began = time.monotonic()
    for _ in range(ROUNDS):
        for threads in candidates:
            best[threads] = min(seconds(threads), best.get(threads, float("inf")))
        if time.monotonic() - began > BUDGET:
            break
    chosen = 1
    for threads in candidates[1:]:
        if best[chosen] >= MIN_GAIN * best[threads]:
            chosen = threads
    return chosen


@torch.inference_mode()
def _seconds(model: PreTrainedModel, threads: int) -> float:
    """Measure the time of a few sampling steps and of a short forward pass, as in an update."""
    torch.set_num_threads(threads)
    step = torch.zeros(_DECODE_ROWS, 1, dtype=torch.long)
    text = torch.zeros(1, _LEARNED_TOKENS, dtype=torch.long)
    began = time.perf_counter()
    for _ in range(_DECODE_STEPS):
        model.base_model(input_ids=step, use_cache=False)
    model.base_model(input_ids=text, use_cache=False)
    return time.perf_counter() - began
