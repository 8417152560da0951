"""Sockets: only of the site's own pages, and unknown ones end with a code."""

from __future__ import annotations

import logging

import pytest
from asgiref.testing import ApplicationCommunicator
from pytest_django import Settings

from tests.patience import SECONDS
from webapp import asgi
from webapp.live.origins import is_own


@pytest.mark.parametrize(
    ("origin", "host", "own"),
    [
        ("http://localhost:8000", "localhost:8000", True),
        ("http://localhost", "localhost", True),
        ("https://localhost", "localhost:443", True),
        ("http://[::1]:8000", "[::1]:8000", True),
        ("http://LOCALHOST:8000", "localhost:8000", True),
        ("http://localhost:1", "localhost:8000", False),
        ("http://127.0.0.1:8000", "localhost:8000", False),
        ("http://evil.example", "evil.example", False),
        ("http://evil.example", "localhost", False),
        ("null", "localhost", False),
        ("", "localhost", False),
        ("file://", "localhost", False),
        ("http://localhost:99999", "localhost:99999", False),
        ("ws://localhost", "localhost", False),
    ],
)
def test_a_page_is_the_sites_own_by_scheme_name_and_port(origin: str, host: str, own: bool, settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
    settings.CSRF_TRUSTED_ORIGINS = []
    assert is_own(origin, host) is own


def test_with_https_only_https_pages_are_own(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["echo.example"]
    settings.SECURE_SSL_REDIRECT = True
    settings.CSRF_TRUSTED_ORIGINS = ["https://lab.example:8443", "https://*.team.example"]
    assert is_own("https://echo.example", "echo.example")
    assert not is_own("http://echo.example", "echo.example")
    assert is_own("https://lab.example:8443", "inner")
    assert not is_own("https://lab.example", "inner")
    assert is_own("https://a.team.example", "inner")
    assert not is_own("http://a.team.example", "inner")


@pytest.mark.parametrize(
    ("path", "cookie"),
    [
        ("/", b""),
        ("/ws/nothing", b""),
        ("/ws/runs/a\0b/", b""),
        ("/ws/runs/abc/", b'echoscope_session="abcdefg\\000h"'),
    ],
)
async def test_an_unknown_socket_is_closed_without_an_error(
    path: str, cookie: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    headers = [(b"host", b"localhost"), (b"origin", b"http://localhost"), (b"cookie", cookie)]
    scope = {"type": "websocket", "path": path, "query_string": b"", "headers": headers, "subprotocols": []}
    socket = ApplicationCommunicator(asgi.application, scope)
    await socket.send_input({"type": "websocket.connect"})
    assert (await socket.receive_output(SECONDS))["type"] == "websocket.accept"
    assert (await socket.receive_output(SECONDS))["code"] == 4404
    await socket.wait(SECONDS)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
