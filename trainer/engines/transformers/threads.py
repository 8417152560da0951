"""Rows of a small model dealt out to threads, each with a session of its own over the same weights.

A small model's layers are too short to be split among a processor's cores: starting the others and waiting for them
takes longer than what they take over. So each lane computes on one core, and the lanes side by side; layers leave
Python's lock while they compute. What a session does is transformers.py's business.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from queue import SimpleQueue
from threading import Lock
from typing import Protocol

import torch

from trainer.engines.base import SampledResponse, SamplingSession, TokenListener

SMALL = 32 * 2**20
"""Bytes of weights up to which cores are better used side by side than on one layer together."""
MIN_ROWS_PER_THREAD = 12
"""Rows below which a lane's own cost, most of it Python's, is as large as what it computes."""
MAX_THREADS = 4
"""More lanes than that wait for each other in Python."""


def shares(rows: int, lanes: int) -> list[range]:
    """The rows of each lane: neighbours together, since the rows of a group begin alike, and about equally many."""
    cuts = [rows * number // lanes for number in range(lanes + 1)]
    return [range(start, stop) for start, stop in pairwise(cuts)]


def thread_count(rows: int, model: torch.nn.Module) -> int:
    """How many lanes to play so many rows in; 0: none, in the caller's own thread with all of its cores."""
    threads = torch.get_num_threads()
    weights = list(model.parameters())
    if threads == 1 or any(own.device.type != "cpu" for own in weights):
        return 0
    if sum(own.numel() * own.element_size() for own in weights) > SMALL:
        return 0
    return max(1, min(rows // MIN_ROWS_PER_THREAD, threads, MAX_THREADS))


class ThreadSession(SamplingSession, Protocol):
    """A session that can be told to end early."""

    halted: bool
    """Set from another thread: nothing more is sampled, the present round ends without its unfinished rows."""


class ThreadedSession:
    """Dialogues in several lanes. See `trainer.engines.base.SamplingSession`.

    Each lane plays in rounds, and its next one begins when its results were taken. Results are given lane by lane, so
    that their order, and with it a run's journal, does not depend on which lane is quicker.

    Args:
        open_lane: makes the session of some rows, which it numbers from 0, and of who listens to it.
        rows: the rows of each lane, as they are known outside.
        listener: hears all lanes, one thread at a time.
    """

    def __init__(
        self,
        open_lane: Callable[[range, TokenListener | None], ThreadSession],
        rows: Sequence[range],
        listener: TokenListener | None,
    ) -> None:
        self.rows = list(rows)
        everybody = None if listener is None else _SharedListener(listener)
        self.ears = [None if everybody is None else _ThreadListener(everybody, share) for share in rows]
        self.lanes = [open_lane(share, ear) for share, ear in zip(rows, self.ears, strict=True)]
        self.place = {row: (lane, row - share.start) for lane, share in enumerate(rows) for row in share}
        self.asked: list[dict[int, list[int]]] = [{} for _ in rows]

    def reset_row(self, row: int) -> None:
        lane, place = self.place[row]
        self.lanes[lane].reset_row(place)

    def append(self, row: int, ids: list[int]) -> None:
        """Its turn comes in its lane's next round."""
        lane, place = self.place[row]
        self.asked[lane][place] = ids

    def generate(self, prompts: Mapping[int, list[int]]) -> Iterator[tuple[int, SampledResponse]]:
        for row, ids in prompts.items():
            self.append(row, ids)
        threads = torch.get_num_threads()
        each = max(1, threads // len(self.lanes))
        for session in self.lanes:
            session.halted = False
        pool = ThreadPoolExecutor(len(self.lanes), "lane", initializer=torch.set_num_threads, initargs=(each,))
        try:
            rounds = deque(self._begin(pool, lane) for lane in range(len(self.lanes)))
            while rounds:
                round_ = rounds.popleft()
                if round_ is None:
                    continue
                yield from round_.results()
                rounds.append(self._begin(pool, round_.lane))
        finally:
            for session in self.lanes:
                session.halted = True
            pool.shutdown()
            torch.set_num_threads(threads)  # threads that PyTorch starts from now on would have the lanes' number

    def _begin(self, pool: ThreadPoolExecutor, lane: int) -> _ThreadBatch | None:
        """The lane's next round, if anybody is to answer in it."""
        asked, self.asked[lane] = dict(sorted(self.asked[lane].items())), {}
        return _ThreadBatch(pool, self, lane, asked) if asked else None


class _ThreadBatch:
    """One response for each of some rows of a lane, sampled in a thread of the pool."""

    def __init__(
        self, pool: ThreadPoolExecutor, lanes: ThreadedSession, lane: int, asked: Mapping[int, list[int]]
    ) -> None:
        self.lane = lane
        self.said: SimpleQueue[tuple[int, SampledResponse] | None] = SimpleQueue()
        self.end: Future[None] = pool.submit(self._play, lanes.lanes[lane], lanes.rows[lane], lanes.ears[lane], asked)

    def _play(
        self, session: ThreadSession, rows: range, ear: _ThreadListener | None, asked: Mapping[int, list[int]]
    ) -> None:
        try:
            for place, sampled in session.generate(asked):
                self.said.put((rows[place], sampled))
        finally:
            if ear is not None:
                ear.rests()
            self.said.put(None)

    def results(self) -> Iterator[tuple[int, SampledResponse]]:
        """As they come, to the end of the round. Raises what the lane raised."""
        while (result := self.said.get()) is not None:
            yield result
        self.end.result()


class _SharedListener:
    """Who listens to all lanes, and the rows that are being continued in them: some pick one among all."""

    def __init__(self, listener: TokenListener) -> None:
        self.listener, self.lock = listener, Lock()
        self.alive: dict[range, list[int]] = {}


class _ThreadListener:
    """What a listener hears of one lane, whose rows it knows by their numbers outside."""

    def __init__(self, everybody: _SharedListener, rows: range) -> None:
        self.everybody, self.rows = everybody, rows

    def select_rows(self, rows: Sequence[int]) -> Sequence[int]:
        with self.everybody.lock:
            self.everybody.alive[self.rows] = [self.rows[place] for place in rows]
            alive = sorted(row for known in self.everybody.alive.values() for row in known)
            return [row - self.rows.start for row in self.everybody.listener.select_rows(alive) if row in self.rows]

    def on_tokens(self, row: int, ids: list[int]) -> None:
        with self.everybody.lock:
            self.everybody.listener.on_tokens(self.rows[row], ids)

    def rests(self) -> None:
        """Nobody in the lane is being continued until its next round."""
        with self.everybody.lock:
            self.everybody.alive.pop(self.rows, None)
