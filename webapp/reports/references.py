"""Addresses of this site in a report: which line of a body is shown as an embed, and what it refers to."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal
from urllib.parse import SplitResult, parse_qs, urlsplit

from django.conf import settings
from django.http import HttpRequest
from django.urls import Resolver404, resolve

from webapp.trajectories.positions import requested_position

Kind = Literal["run", "result", "curves", "trajectory", "share", "film"]
KINDS: dict[str, Kind] = {
    "run": "run",
    "run-evaluation": "result",
    "run-curves": "curves",
    "compare": "curves",
    "trajectory": "trajectory",
    "prompt": "film",
    "shared": "share",
    "embed": "share",
}
"""URL name → kind of embed."""
PLACES = ("/runs/", "/compare", "/t/", "/s/", "/embed/")
"""Beginnings of the paths of these URLs: a quick test before a path is resolved."""
MAX_RUNS, MAX_NAMES, MAX_ADDRESS = 8, 4, 1000

_LINE = re.compile(r"<(?P<bracketed>[^<>\s]+)>|\[(?P<caption>[^\[\]]*)\]\((?P<linked>[^()\s]+)\)|(?P<bare>\S+)")


@dataclass(frozen=True)
class Reference:
    """An address of this site on a line of its own.

    Attributes:
        kind: what is shown.
        address: path and query on this site.
        caption: text of the link, if it has one.
        slugs: of runs, of the trajectory, or the token of a share link.
        names: metrics, for curves; none = the main ones.
        position: 0-based turn and action at which a player opens.
    """

    kind: Kind
    address: str
    caption: str = ""
    slugs: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    position: tuple[int, int] | None = None


def own_hosts(request: HttpRequest | None = None) -> frozenset[str]:
    """Hosts of this site: as configured, and as in the request."""
    hosts = {urlsplit(settings.ECHOSCOPE_URL).netloc}
    if request is not None:
        hosts.add(request.get_host())
    return frozenset(host.lower() for host in hosts if host)


@dataclass(frozen=True)
class Address:
    """An address of this site that may be a reference, with the text of its link."""

    parts: SplitResult
    caption: str


def address_of(line: str, hosts: Collection[str]) -> Address | None:
    """The address of a line: a bare one, one in <>, or a Markdown link; None for other lines. Resolves nothing."""
    found = _LINE.fullmatch(line.strip())
    if found is None:
        return None
    address = found["bracketed"] or found["linked"] or found["bare"]
    if len(address) > MAX_ADDRESS:
        return None
    try:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            if parts.scheme not in ("http", "https") or parts.netloc.lower() not in hosts:
                return None
        elif not address.startswith("/") or address.startswith("//"):
            return None
    except ValueError:
        return None
    return Address(parts, (found["caption"] or "").strip()) if parts.path.startswith(PLACES) else None


def reference_of(line: str, hosts: Collection[str]) -> Reference | None:
    """The reference of a line; None for lines without one."""
    address = address_of(line, hosts)
    return None if address is None else reference_at(address)


def reference_at(address: Address) -> Reference | None:
    """What the address refers to; None for pages that are not embedded."""
    parts, caption = address.parts, address.caption
    try:
        resolved = resolve(parts.path)
        query = parse_qs(parts.query)
    except (ValueError, Resolver404):
        return None
    kind = KINDS.get(resolved.url_name or "")
    if kind is None or resolved.namespace:
        return None
    kept = parts.path + (f"?{parts.query}" if parts.query else "")
    if kind in ("trajectory", "share"):
        slug = str(resolved.kwargs.get("slug") or resolved.kwargs.get("token"))
        single = {name: values[0] for name, values in query.items()}
        return Reference(kind, kept, caption, (slug,), position=requested_position(single))
    slugs = (str(resolved.kwargs["slug"]),) if "slug" in resolved.kwargs else _distinct(query.get("runs", ()), MAX_RUNS)
    names = _distinct([*query.get("names", ()), *query.get("metric", ())], MAX_NAMES)
    return Reference(kind, kept, caption, slugs, names) if slugs else None


def _distinct(values: Iterable[str], limit: int) -> tuple[str, ...]:
    """The parts of comma-separated values, each once."""
    parts = (part.strip() for value in values for part in value.split(","))
    return tuple(dict.fromkeys(part for part in parts if part and "\0" not in part))[:limit]
