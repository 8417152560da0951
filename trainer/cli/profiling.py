"""Profiler of a command: cProfile statistics, or a trace of the torch profiler."""

from __future__ import annotations

import cProfile
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def profiled(path: Path | None) -> Iterator[None]:
    """Profile what runs within, unless `path` is None.

    Writes cProfile statistics (for pstats, snakeviz), or a Chrome trace of CPU and GPU with memory if the name ends in
    .json: a trace grows with every operation, so profile a few iterations. Rank r > 0 writes NAME.rank-r.
    """
    if path is None:
        yield
        return
    rank = os.environ.get("RANK", "0")
    path = path if rank == "0" else path.with_stem(f"{path.stem}.rank-{rank}")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix != ".json":
        profiler = cProfile.Profile()
        try:
            with profiler:
                yield
        finally:
            profiler.dump_stats(path)
        return
    import torch.profiler

    with torch.profiler.profile(profile_memory=True) as trace:
        yield
    trace.export_chrome_trace(str(path))
