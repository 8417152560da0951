"""Token listeners for sessions that contain some of the rows of another session."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from trainer.engines.sampler import TokenListener


class IndexedListener:
    """A listener to an inner session with rows numbered from 0.

    Args:
        listener: listener to the outer session.
        rows: the outer row number of each inner row.
    """

    def __init__(self, listener: TokenListener, rows: Sequence[int]) -> None:
        self.listener, self.rows = listener, rows
        self._index = {row: index for index, row in enumerate(rows)}

    def select_rows(self, rows: Sequence[int]) -> Sequence[int]:
        selected = self.listener.select_rows([self.rows[index] for index in rows])
        return [self._index[row] for row in selected if row in self._index]

    def on_tokens(self, row: int, ids: list[int]) -> None:
        self.listener.on_tokens(self.rows[row], ids)


class SharedListener:
    """A listener shared by the sessions of several threads; it can select from their active rows."""

    def __init__(self, listener: TokenListener) -> None:
        self.listener, self.lock = listener, Lock()
        self.active: dict[int, list[int]] = {}  # by thread

    def for_thread(self, thread: int, rows: range) -> IndexedListener:
        """Return the listener of one thread's session, which contains these rows."""
        return IndexedListener(_ThreadListener(self, thread), rows)

    def round_ended(self, thread: int) -> None:
        """Note that the thread has no active rows until its next round."""
        with self.lock:
            self.active.pop(thread, None)


class _ThreadListener:
    """One thread's access to a `SharedListener`; may select rows of other threads."""

    def __init__(self, shared: SharedListener, thread: int) -> None:
        self.shared, self.thread = shared, thread

    def select_rows(self, rows: Sequence[int]) -> Sequence[int]:
        shared = self.shared
        with shared.lock:
            shared.active[self.thread] = list(rows)
            return shared.listener.select_rows(sorted(row for active in shared.active.values() for row in active))

    def on_tokens(self, row: int, ids: list[int]) -> None:
        with self.shared.lock:
            self.shared.listener.on_tokens(row, ids)
