"""Addresses of servers in settings."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit


def checked_address(address: str, schemes: Collection[str] = ("http", "https"), example: str = "") -> str:
    """Return the address of a server, without white space around it. Raises ValueError.

    Args:
        address: as written by a user.
        schemes: schemes that the client supports.
        example: an address that would be accepted, for the error.
    """
    text = address.strip()
    try:
        parts = urlsplit(text)
        usable = parts.scheme in schemes and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment or any(sign.isspace() for sign in text):
        hint = f": write it as in {example}" if example else ""
        raise ValueError(f"{address!r} is not the address of a server{hint}")
    if parts.username is not None or parts.password is not None:
        raise ValueError("an address may contain no user name and password: it is stored with the run")
    return text
