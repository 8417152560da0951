"""A real HTTP server for webhooks, in a thread, with scripted responses and recorded requests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from tests.local_http import serving


@dataclass
class Receiver:
    """Responds with the statuses in order, then with the last one."""

    statuses: list[int] = field(default_factory=lambda: [200])
    body: bytes = b"ok"
    location: str = ""
    drip: float = 0.0  # seconds between two bytes of the answer
    port: int = 0
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def next_status(self) -> int:
        return self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]


@contextmanager
def listening(receiver: Receiver) -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.requests.append((dict(self.headers), data))
            self.send_response(receiver.next_status())
            if receiver.location:
                self.send_header("Location", receiver.location)
            self.send_header("Content-Length", str(len(receiver.body)))
            self.end_headers()
            try:
                for byte in [receiver.body] if not receiver.drip else receiver.body:
                    self.wfile.write(byte if isinstance(byte, bytes) else bytes([byte]))
                    self.wfile.flush()
                    time.sleep(receiver.drip)
            except OSError:  # the client has disconnected
                pass

        def log_message(self, format: str, *args: object) -> None:
            pass

    with serving(Handler) as receiver.port:
        yield receiver
