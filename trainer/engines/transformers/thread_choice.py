"""Number of CPU threads of a run whose `policy.threads` is 0: the fastest one on the machine as it is at the start.

Every operation of a model waits for the slowest of its threads. Beside other busy processes, or where threads spin,
more of them can be slower than one; it depends on the load, the scheduler and the model, so it is measured.
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
"""Speed-up that twice as many threads must give: below it, the cores are worth more to other processes."""
_DECODE_ROWS, _DECODE_STEPS, _LEARNED_TOKENS = 16, 4, 128


def choose_threads(model: PreTrainedModel) -> int:
    """The fastest number of threads for a model on this machine, at most PyTorch's present one, which is restored.

    That is the number of cores, or OMP_NUM_THREADS. Small models sample in one thread per core, which wait for nothing,
    and are not measured. The load average says nothing here: with sleeping threads (OMP_WAIT_POLICY=PASSIVE), two were
    faster than one also beside ten times as many busy processes as cores.
    """
    limit = torch.get_num_threads()
    size = sum(weight.numel() * weight.element_size() for weight in model.parameters())
    if limit == 1 or size <= MAX_THREADED_BYTES:
        return limit
    try:
        _seconds(model, limit)  # the first passes also prepare kernels
        return fastest(limit, lambda threads: _seconds(model, threads))
    finally:
        torch.set_num_threads(limit)


def fastest(limit: int, seconds: Callable[[int], float]) -> int:
    """The number of threads, of `limit` and its halves, with the shortest work; the smaller one unless it pays.

    Args:
        seconds: does the same work with a number of threads, and returns how long it took. Rounds are interleaved, and
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
    """Time of a few sampling steps and of a short forward pass, as an update has many."""
    torch.set_num_threads(threads)
    step = torch.zeros(_DECODE_ROWS, 1, dtype=torch.long)
    text = torch.zeros(1, _LEARNED_TOKENS, dtype=torch.long)
    began = time.perf_counter()
    for _ in range(_DECODE_STEPS):
        model.base_model(input_ids=step, use_cache=False)
    model.base_model(input_ids=text, use_cache=False)
    return time.perf_counter() - began
