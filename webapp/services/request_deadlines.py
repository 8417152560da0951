"""HTTP protocol of uvicorn with deadlines: `uvicorn --http webapp.services.request_deadlines:DeadlineProtocol`.

uvicorn waits for the rest of a request as long as its sender keeps the connection open. Without a proxy in front, a few
thousand unfinished requests would use up all connections of the site.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS = 20.0
"""Seconds from a connection, or from the first byte of a later request on it, to the end of the headers."""
BODY_SECONDS = 60.0
"""Seconds that a body may be late in total. Arriving bytes add to the remaining time."""
SLOWEST = 1000.0
"""Bytes per second of a body that arrives in time, however long it is."""


class DeadlineProtocol(HttpToolsProtocol):
    """A connection that is closed if the next part of a request does not arrive in time."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_within(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.cycle is not None and self.cycle.response_complete:
            self._expect_head()  # also where the parser ignores the data, such as empty lines between requests
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._expect_head()  # for a request sent before the response to the last one
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._expect_within(BODY_SECONDS)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        left = self._deadline.when() - self.loop.time() if self._deadline is not None else 0.0
        self._expect_within(min(BODY_SECONDS, left + len(body) / SLOWEST))
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._expect_nothing()
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        self._expect_nothing()  # the connection changes hands
        super().handle_websocket_upgrade()

    def _expect_head(self) -> None:
        if self._deadline is None:
            self._expect_within(HEAD_SECONDS)

    def _expect_within(self, seconds: float) -> None:
        self._expect_nothing()
        self._deadline = self.loop.call_later(seconds, self._close, seconds)

    def _expect_nothing(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close(self, seconds: float) -> None:
        if self.flow.read_paused:  # the site has not read everything that arrived
            self._expect_within(seconds)
        else:
            self.transport.close()
