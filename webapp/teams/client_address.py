"""Network address of a visitor, for rate limits, the list of sessions and the audit log."""

from __future__ import annotations

import ipaddress

from django.http import HttpRequest

NO_ADDRESS = "::"
"""Placeholder for an unknown address."""


def client_address(request: HttpRequest) -> str:
    """Return the client address from the web server, which decides which proxies to trust.

    Headers of the request are not read here, since any visitor can send them. Behind a Unix socket, or a proxy that
    forwards something else, there is no address: all such clients share one limit.
    """
    address = request.META.get("REMOTE_ADDR", "").partition("%")[0]  # without the zone, which no column stores
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return NO_ADDRESS
