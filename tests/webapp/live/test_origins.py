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
        ("http://localhost", "localhost:80", True),
        ("https://localhost", "localhost", False),
        ("https://localhost", "localhost:443", False),
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
    assert is_own(origin, host, secure=False) is own


@pytest.mark.parametrize(
    ("origin", "own"),
    [
        ("https://localhost", True),
        ("https://localhost:443", True),
        ("https://localhost:8443", False),
        ("http://localhost", False),
        ("http://localhost:443", False),
    ],
)
def test_over_https_only_https_pages_are_own(origin: str, own: bool, settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["localhost"]
    assert is_own(origin, "localhost", secure=True) is own


@pytest.mark.parametrize("redirects", [False, True])
@pytest.mark.parametrize("scheme", ["ws", "wss"])
@pytest.mark.parametrize("page", ["http", "https"])
async def test_a_socket_has_the_scheme_of_its_page(scheme: str, page: str, redirects: bool, settings: Settings) -> None:
    """A proxy may end HTTPS: where the site redirects to HTTPS, every page has it."""
    settings.SECURE_SSL_REDIRECT = redirects
    headers = [(b"host", b"localhost"), (b"origin", f"{page}://localhost".encode())]
    scope = {"type": "websocket", "scheme": scheme, "path": "/ws/nothing", "query_string": b"", "subprotocols": []}
    socket = ApplicationCommunicator(asgi.application, scope | {"headers": headers})
    await socket.send_input({"type": "websocket.connect"})
    own = (page == "https") is (redirects or scheme == "wss")
    expected = "websocket.accept" if own else "websocket.close"
    assert (await socket.receive_output(SECONDS))["type"] == expected


def test_configured_origins_are_own(settings: Settings) -> None:
    settings.CSRF_TRUSTED_ORIGINS = ["https://lab.example:8443", "https://*.team.example"]
    assert is_own("https://lab.example:8443", "inner", secure=False)
    assert not is_own("https://lab.example", "inner", secure=False)
    assert is_own("https://a.team.example", "inner", secure=False)
    assert not is_own("http://a.team.example", "inner", secure=False)


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
