"""Handling of missing and partial responses by a page."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from tests.local_http import serving
from tests.webapp.javascript import evaluate


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        whole = b'{"turns": 3}'
        self.send_response(404 if self.path == "/gone" else 200)
        self.send_header("Content-Length", str(len(whole)))
        self.end_headers()
        self.wfile.write(whole[:5] if self.path == "/cut" else whole)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    with serving(Answers) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize(("path", "found"), [("/whole", {"turns": 3}), ("/gone", None), ("/cut", None)])
def test_only_a_complete_response_counts(site: str, path: str, found: object) -> None:
    assert evaluate("ui/fetch_json.js", "fetchJson(data)", site + path) == found


def test_an_unreachable_server_is_not_an_error(site: str) -> None:
    away = site.rsplit(":", 1)[0] + ":9"
    assert evaluate("ui/fetch_json.js", "fetchJson(data)", away) is None
