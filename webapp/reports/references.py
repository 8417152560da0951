"""Addresses of this site in a report: which lines of a body are shown as embeds, and of which objects."""

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

Kind = Literal["runs", "curves", "trajectory", "share", "film"]
KINDS: dict[str, Kind] = {
    "run": "runs",
    "run-evaluation": "runs",
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
MAX_CURVES, MAX_NAMES, MAX_ROWS, MAX_ADDRESS = 8, 4, 20, 1000

_LINE = re.compile(r"<(?P<bracketed>[^<>\s]+)>|\[(?P<caption>[^\[\]]*)\]\((?P<linked>[^()\s]+)\)|(?P<bare>\S+)")


@dataclass(frozen=True)
class Reference:
    """An address of this site that is the whole line.

    Attributes:
        slugs: slugs of runs or of a trajectory, or the token of a share link.
        caption: text of the link, if it has one.
        names: metrics, for curves; none = the main ones.
        position: 0-based turn and action at which a player opens.
    """

    kind: Kind
    slugs: tuple[str, ...]
    caption: str = ""
    names: tuple[str, ...] = ()
    position: tuple[int, int] | None = None


def list_targets(references: Iterable[Reference]) -> tuple[set[str], set[str], set[str]]:
    """Return the slugs of runs, slugs of trajectories, and tokens of share links in the references."""
    runs, trajectories, tokens = set[str](), set[str](), set[str]()
    for reference in references:
        kind = reference.kind
        (runs if kind in ("runs", "curves") else tokens if kind == "share" else trajectories).update(reference.slugs)
    return runs, trajectories, tokens


def own_hosts(request: HttpRequest) -> frozenset[str]:
    """Return the hosts of this site: the configured one and the request's."""
    hosts = {urlsplit(settings.ECHOSCOPE_URL).netloc, request.get_host()}
    return frozenset(host.lower() for host in hosts if host)


Address = tuple[SplitResult, str]
"""An address of this site that may be a reference, and the text of its link."""


def find_address(line: str, hosts: Collection[str]) -> Address | None:
    """Return the address of a line that is bare, in <>, or a Markdown link; None for other lines. Resolves nothing."""
    match = _LINE.fullmatch(line.strip())
    if match is None:
        return None
    address = match["bracketed"] or match["linked"] or match["bare"]
    if len(address) > MAX_ADDRESS:
        return None
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    elsewhere = parts.scheme not in ("http", "https") or parts.netloc.lower() not in hosts
    if (elsewhere and (parts.scheme or parts.netloc)) or not parts.path.startswith(PLACES):
        return None
    return parts, (match["caption"] or "").strip()


def reference_at(address: Address) -> Reference | None:
    """Resolve an address; None for pages that are not embedded."""
    parts, caption = address
    try:
        resolved = resolve(parts.path)
        query = parse_qs(parts.query)
    except (ValueError, Resolver404):
        return None
    kind = KINDS.get(resolved.url_name or "")
    if kind is None or resolved.namespace:
        return None
    slugs = tuple(map(str, resolved.kwargs.values())) or _distinct(query.get("runs", ()), MAX_CURVES)
    if kind in ("trajectory", "share"):
        position = requested_position({name: values[0] for name, values in query.items()})
        return Reference(kind, slugs, caption, position=position)
    names = _distinct([*query.get("names", ()), *query.get("metric", ())], MAX_NAMES)
    return Reference(kind, slugs, caption, names) if slugs else None


def _distinct(values: Iterable[str], limit: int) -> tuple[str, ...]:
    """Return the parts of comma-separated values, each once."""
    parts = (part.strip() for value in values for part in value.split(","))
    return tuple(dict.fromkeys(part for part in parts if part and "\0" not in part))[:limit]
