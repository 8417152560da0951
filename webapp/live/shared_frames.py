"""Frames for many sockets, encoded and compressed once, and the protocol of uvicorn that writes them to a connection.

`uvicorn --ws webapp.live.shared_frames:SharedFrameProtocol`. An ASGI message to each socket would encode and compress
the same text and wake a task for each. The protocol compresses every message independently (no context takeover), so
that compressed bytes are valid for all sockets.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from functools import cached_property
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.extensions.permessage_deflate import PerMessageDeflate, ServerPerMessageDeflateFactory
from websockets.frames import Frame, Opcode
from websockets.http11 import Request

WRITE = "echoscope.write"
"""Name of the function among the extensions of a scope: `Write`."""
WINDOW_BITS = 12
COMPRESSION = {"memLevel": 5}


class SharedFrame:
    """A text message, encoded when the first socket needs it."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def plain(self) -> bytes:
        """Encode the message for clients without compression."""
        return self._frame.serialize(mask=False)

    @cached_property
    def compressed(self) -> bytes:
        """Encode the message for clients that accept WINDOW_BITS."""
        deflate = PerMessageDeflate(True, True, WINDOW_BITS, WINDOW_BITS, COMPRESSION)
        return self._frame.serialize(mask=False, extensions=[deflate])

    @property
    def _frame(self) -> Frame:
        return Frame(Opcode.TEXT, self.text.encode())


Write = Callable[[SharedFrame], bool]
"""Write a frame now. False if that is not possible: the client has left, or has not read what was sent before."""


def find_write(scope: MutableMapping[str, Any]) -> Write:
    """Return the write function of a socket's connection; under another server, one that never writes."""
    write: Write = scope.get("extensions", {}).get(WRITE, lambda frame: False)
    return write


class SharedFrameProtocol(WebSocketsSansIOProtocol):
    """Websocket connection that accepts both shared frames and ASGI messages."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn.available_extensions = [
            ServerPerMessageDeflateFactory(
                server_no_context_takeover=True,
                server_max_window_bits=WINDOW_BITS,
                client_max_window_bits=WINDOW_BITS,
                compress_settings=COMPRESSION,
            )
        ]
        self._compresses = False

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.response.status_code == 101:
            extensions: dict[str, Any] = self.scope["extensions"]
            extensions[WRITE] = self.write_shared
            self._compresses = any(
                isinstance(extension, PerMessageDeflate) and extension.local_max_window_bits >= WINDOW_BITS
                for extension in self.conn.extensions
            )

    def write_shared(self, frame: SharedFrame) -> bool:
        """See `Write`."""
        open_ = self.handshake_complete and not (self.close_sent or self.disconnected or self.transport.is_closing())
        if not open_ or not self.writable.is_set():
            return False
        self.transport.write(frame.compressed if self._compresses else frame.plain)
        return True
