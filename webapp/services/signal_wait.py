"""A wait that a signal ends, such as the signal for the end of a child, so that nothing has to be polled."""

from __future__ import annotations

import select
import signal
import socket


class SignalWait:
    """Waits until a signal arrives. Created in the main thread; only one per process."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)  # Python reports only signals with a handler
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)

    def wait(self, seconds: float) -> None:
        """Return when a signal has arrived since the last call, or after `seconds`."""
        select.select([self._reader], [], [], max(0.0, seconds))
        try:
            while self._reader.recv(4096):
                pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._reader.close()
        self._writer.close()
