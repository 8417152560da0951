"""A small OpenID Connect provider over real HTTP that authenticates one configured user."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs


class Provider(ThreadingHTTPServer):
    """Returns the claims of `person` for the expected code."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.person: dict[str, Any] = {}
        self.requests: list[dict[str, list[str]]] = []

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Answers(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        issuer = self.server.issuer
        if self.path == "/.well-known/openid-configuration":
            self._respond(
                {
                    "issuer": issuer,
                    "authorization_endpoint": f"{issuer}/authorize",
                    "token_endpoint": f"{issuer}/token",
                    "userinfo_endpoint": f"{issuer}/person",
                    "jwks_uri": f"{issuer}/keys",
                }
            )
        elif self.path == "/person" and self.headers["Authorization"] == "Bearer opens":
            self._respond(self.server.person)
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.server.requests.append(form)
        if self.path == "/token" and form["code"] == ["good"]:
            self._respond({"access_token": "opens", "token_type": "Bearer", "expires_in": 60})
        else:
            self.send_error(400)

    def _respond(self, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """No request log."""


@contextmanager
def running() -> Iterator[Provider]:
    """A provider while the test runs."""
    provider = Provider()
    thread = threading.Thread(target=provider.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        provider.shutdown()
        provider.server_close()
        thread.join()
