"""Repeated checks of whether users of open sockets may still see what they follow, one for all equal sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Protocol

from webapp.core.broadcast import hub_of_running_loop

ACCESS_INTERVAL = 8.0
"""Seconds after which a socket notices that its user logged out, was deactivated, or lost access."""


class WatchedSocket(Protocol):
    """A socket, as seen by the watch."""

    def access_key(self) -> Hashable:
        """Return a key that is equal for sockets with access for the same reasons."""

    async def check_access(self) -> object:
        """Return the current access, as `on_access` takes it. Does not raise."""

    def on_access(self, access: object) -> None:
        """Accept the result of a check of an equal socket. Must not block."""


class AccessWatch:
    """The open sockets of one event loop."""

    def __init__(self) -> None:
        self._sockets: set[WatchedSocket] = set()
        self._task: asyncio.Task[None] | None = None

    def join(self, socket: WatchedSocket) -> None:
        self._sockets.add(socket)
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def leave(self, socket: WatchedSocket) -> None:
        self._sockets.discard(socket)
        if not self._sockets and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(ACCESS_INTERVAL)
            alike: dict[Hashable, list[WatchedSocket]] = {}
            for socket in self._sockets:
                alike.setdefault(socket.access_key(), []).append(socket)
            for sockets in alike.values():
                access = await sockets[0].check_access()
                for socket in sockets:
                    if socket in self._sockets:
                        socket.on_access(access)


_watches: dict[asyncio.AbstractEventLoop, AccessWatch] = {}


def access_watch() -> AccessWatch:
    """Return the watch of the running event loop."""
    return hub_of_running_loop(_watches, AccessWatch)
