"""Origin check of websockets: browsers send cookies with sockets of any page, so only the site's pages may open one.

The rule is Django's rule for forms: scheme, name and port of the page equal the request's, or the origin is one of
ECHOSCOPE_ORIGINS.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import validate_host
from django.utils.http import is_same_domain

PORTS = {"http": 80, "https": 443}


class OwnOrigin:
    """ASGI middleware that refuses sockets of other origins with 403, and those without an origin."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        secure = settings.SECURE_SSL_REDIRECT or scope.get("scheme") in ("wss", "https")
        if is_own(headers.get(b"origin", ""), headers.get(b"host", ""), secure=secure):
            return await self.application(scope, receive, send)
        return await WebsocketDenier()(scope, receive, send)


def is_own(origin: str, host: str, *, secure: bool) -> bool:
    """Return True if pages of `origin` may open sockets of the site requested as `host`; `secure` means over HTTPS."""
    try:
        page = urlsplit(origin)
        site = urlsplit(f"{'https' if secure else 'http'}://{host}")
        places = [(parts.hostname or "", parts.port or PORTS.get(parts.scheme, 0)) for parts in (page, site)]
    except ValueError:
        return False
    if page.scheme not in PORTS or not places[0][0]:
        return False
    if any(_is_trusted(page.scheme, page.netloc.lower(), trusted) for trusted in settings.CSRF_TRUSTED_ORIGINS):
        return True
    if page.scheme != site.scheme:
        return False
    name = f"[{places[1][0]}]" if ":" in places[1][0] else places[1][0]
    allowed = settings.ALLOWED_HOSTS or (["localhost", "127.0.0.1", "[::1]"] if settings.DEBUG else [])
    return places[0] == places[1] and validate_host(name, allowed)


def _is_trusted(scheme: str, netloc: str, trusted: str) -> bool:
    parts = urlsplit(trusted)
    return parts.scheme == scheme and is_same_domain(netloc, parts.netloc.lower().lstrip("*"))
