"""Multi-threaded CPU sampling of a small model: one session per thread over the same weights.

The layers of a small model are too short to be split among cores: waking the other cores takes longer than the work
they take over. So each thread computes on one core; layers release Python's lock while they compute.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from queue import SimpleQueue
from typing import Protocol

import torch

from trainer.engines.sampler import SampledResponse, SamplingSession, TokenListener
from trainer.engines.transformers.listeners import SharedListener

MAX_THREADED_BYTES = 32 * 2**20
"""Largest model (bytes of weights) for which one session per core is faster than one session on all cores."""
MIN_ROWS_PER_THREAD = 12
"""Below this number of rows, a thread's overhead, mostly Python's, is as large as its computation."""
MAX_THREADS = 4
"""More threads wait for each other in Python."""


def partition_rows(rows: int, threads: int) -> list[range]:
    """Split rows into nearly equal ranges for the threads: contiguous, since the rows of a group share a prefix."""
    cuts = [rows * number // threads for number in range(threads + 1)]
    return [range(start, stop) for start, stop in pairwise(cuts)]


def thread_count(rows: int, model: torch.nn.Module) -> int:
    """Return the number of threads for this many rows; 0: sample in the caller's thread with all of its cores."""
    threads = torch.get_num_threads()
    weights = list(model.parameters())
    if threads == 1 or any(weight.device.type != "cpu" for weight in weights):
        return 0
    if sum(weight.numel() * weight.element_size() for weight in weights) > MAX_THREADED_BYTES:
        return 0
    return max(1, min(rows // MIN_ROWS_PER_THREAD, threads, MAX_THREADS))


class ThreadSession(SamplingSession, Protocol):
    """A session that can be stopped early."""

    halted: bool
    """Set from another thread: sampling stops, and the current round ends without its unfinished rows."""


class ThreadedSession:
    """Dialogues in several threads. See `trainer.engines.sampler.SamplingSession`.

    Each thread samples in rounds and starts the next round once its results were taken. Results are yielded thread by
    thread, so that their order, and thus a run's journal, does not depend on timing.

    Args:
        open_session: opens the session of some rows, numbered from 0, with its listener.
        rows: the rows of each thread.
        listener: receives the tokens of all threads, one thread at a time.
    """

    def __init__(
        self,
        open_session: Callable[[range, TokenListener | None], ThreadSession],
        rows: Sequence[range],
        listener: TokenListener | None,
    ) -> None:
        self.rows = list(rows)
        self.listener = None if listener is None else SharedListener(listener)
        self.sessions = [
            open_session(part, None if self.listener is None else self.listener.for_thread(thread, part))
            for thread, part in enumerate(rows)
        ]
        self.place = {row: (thread, row - part.start) for thread, part in enumerate(rows) for row in part}
        self.prompts: list[dict[int, list[int]]] = [{} for _ in rows]

    def reset_row(self, row: int) -> None:
        thread, index = self.place[row]
        self.sessions[thread].reset_row(index)

    def append(self, row: int, ids: list[int]) -> None:
        """Queue the prompt for the next round of the row's thread."""
        thread, index = self.place[row]
        self.prompts[thread][index] = ids

    def generate(self, prompts: Mapping[int, list[int]]) -> Iterator[tuple[int, SampledResponse]]:
        for row, ids in prompts.items():
            self.append(row, ids)
        cores = torch.get_num_threads()
        cores_each = max(1, cores // len(self.sessions))
        for session in self.sessions:
            session.halted = False
        pool = ThreadPoolExecutor(
            len(self.sessions), "sampler", initializer=torch.set_num_threads, initargs=(cores_each,)
        )
        try:
            batches = deque(self._start_batch(pool, thread) for thread in range(len(self.sessions)))
            while batches:
                batch = batches.popleft()
                if batch is None:
                    continue
                yield from batch.results()
                batches.append(self._start_batch(pool, batch.thread))
        finally:
            for session in self.sessions:
                session.halted = True
            pool.shutdown()
            torch.set_num_threads(cores)  # otherwise threads that PyTorch starts later inherit `cores_each`

    def _start_batch(self, pool: ThreadPoolExecutor, thread: int) -> _ThreadBatch | None:
        """Start the thread's next round; None if it has no open prompts."""
        prompts, self.prompts[thread] = dict(sorted(self.prompts[thread].items())), {}
        return _ThreadBatch(pool, self, thread, prompts) if prompts else None


class _ThreadBatch:
    """One round of a thread: one response for each open prompt, sampled in the pool."""

    def __init__(
        self, pool: ThreadPoolExecutor, owner: ThreadedSession, thread: int, prompts: Mapping[int, list[int]]
    ) -> None:
        self.owner, self.thread = owner, thread
        self._responses: SimpleQueue[tuple[int, SampledResponse] | None] = SimpleQueue()
        self._end: Future[None] = pool.submit(self._sample, prompts)

    def _sample(self, prompts: Mapping[int, list[int]]) -> None:
        rows = self.owner.rows[self.thread]
        try:
            for index, response in self.owner.sessions[self.thread].generate(prompts):
                self._responses.put((rows[index], response))
        finally:
            if self.owner.listener is not None:
                self.owner.listener.round_ended(self.thread)
            self._responses.put(None)

    def results(self) -> Iterator[tuple[int, SampledResponse]]:
        """Yield responses as they arrive, to the end of the round. Raises the thread's exception."""
        while (result := self._responses.get()) is not None:
            yield result
        self._end.result()
