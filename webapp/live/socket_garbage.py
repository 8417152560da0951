"""Garbage collection while thousands of sockets are open.

A full collection visits every object of every socket, for more than a second with 10,000 of them, and blocks all. The
objects of open sockets are therefore set aside (`gc.freeze`) as their number grows. Their garbage is
found once half of the sockets have closed; until then it takes at most as much memory as the sockets did.
"""

from __future__ import annotations

import gc

FEW = 500
"""Number of sockets whose objects a collection may visit."""
GROWTH = 1.25


class SocketGarbage:
    """Counts the open sockets of this process, and decides what collections visit."""

    def __init__(self) -> None:
        self._open = self._frozen = 0

    def opened(self) -> None:
        self._open += 1
        if self._open > max(FEW, GROWTH * self._frozen):
            gc.freeze()
            self._frozen = self._open

    def closed(self) -> None:
        self._open -= 1
        if self._open < self._frozen / 2:
            gc.unfreeze()
            gc.collect()
            gc.freeze()  # with the modules, as at the start
            self._frozen = self._open if self._open > FEW else 0


socket_garbage = SocketGarbage()
