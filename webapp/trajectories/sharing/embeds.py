"""Embedded players: their URL, their HTML code and the oEmbed response."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from django.http import HttpRequest, QueryDict
from django.urls import Resolver404, resolve, reverse
from django.utils.html import format_html

from webapp.trajectories.models import ShareLink
from webapp.trajectories.positions import position_query, requested_position
from webapp.trajectories.sharing.public import preview_title
from webapp.trajectories.sharing.share_links import find_link

WIDTH, HEIGHT = 760, 540
NARROW = 600
"""Width below which the player is above the thought and needs another height."""
NARROW_HEIGHT = 780
IMAGE_WIDTH = (1200, 630)
CACHE_SECONDS = 3600
OPTIONS = ("autoplay", "theme")


def size_for(max_width: int | None, max_height: int | None) -> tuple[int, int]:
    """Return width and height of a frame within the limits of the page."""
    wide = min(WIDTH, max_width or WIDTH)
    high = HEIGHT if wide >= NARROW else NARROW_HEIGHT
    return wide, min(high, max_height or high)


def embed_address(request: HttpRequest, link: ShareLink, options: str) -> str:
    """Return the URL of the embedded player. `options` is a query such as "?turn=2", or empty."""
    return request.build_absolute_uri(reverse("embed", args=[link.token])) + options


def embed_code(
    request: HttpRequest, link: ShareLink, title: str, options: str, size: tuple[int, int] = (WIDTH, HEIGHT)
) -> str:
    """Return HTML code to paste into a page."""
    return format_html(
        '<iframe src="{}" width="{}" height="{}" title="Echoscope: {}" frameborder="0" loading="lazy"></iframe>',
        embed_address(request, link, options),
        *size,
        title,
    )


def find_link_by_address(request: HttpRequest, address: str) -> tuple[ShareLink, str] | None:
    """Return the active link of a URL of this site, /s/… or /embed/…, and the options of its query; else None."""
    try:
        parts = urlsplit(address)
        resolved = resolve(parts.path)
        here = urlsplit(request.build_absolute_uri("/")).netloc
    except (ValueError, Resolver404):
        return None
    if parts.scheme not in ("http", "https") or parts.netloc.lower() != here.lower():
        return None
    if resolved.url_name not in ("shared", "embed"):
        return None
    link = find_link(resolved.kwargs["token"])
    return None if link is None else (link, embed_options(parse_qs(parts.query)))


def embed_options(query: dict[str, list[str]]) -> str:
    """Return the query string with the options that the embedded player supports."""
    single = {name: values[0] for name, values in query.items() if values}
    position = requested_position(single)
    start = position_query(*position) if position else ""
    options = urlencode({name: single[name] for name in OPTIONS if name in single})
    return f"{start}{'&' if start else '?'}{options}" if options else start


def oembed_response(request: HttpRequest, link: ShareLink, options: str, query: QueryDict) -> dict[str, Any]:
    """Return the response of the oEmbed protocol, type "rich". Raises ValueError for an invalid size."""
    limits = (_pixels(query, "maxwidth"), _pixels(query, "maxheight"))
    wide, high = size_for(*limits)
    title = preview_title(link.trajectory)
    answer: dict[str, Any] = {
        "version": "1.0",
        "type": "rich",
        "title": title,
        "provider_name": "Echoscope",
        "provider_url": request.build_absolute_uri("/"),
        "cache_age": CACHE_SECONDS,
        "html": embed_code(request, link, title, options, (wide, high)),
        "width": wide,
        "height": high,
    }
    if IMAGE_WIDTH[0] <= (limits[0] or IMAGE_WIDTH[0]) and IMAGE_WIDTH[1] <= (limits[1] or IMAGE_WIDTH[1]):
        picture = request.build_absolute_uri(reverse("shared-picture", args=[link.token]))
        answer |= {"thumbnail_url": picture, "thumbnail_width": IMAGE_WIDTH[0], "thumbnail_height": IMAGE_WIDTH[1]}
    return answer


def _pixels(query: QueryDict, name: str) -> int | None:
    text = query.get(name)
    if not text:
        return None
    if not (text.isdecimal() and text.isascii()) or int(text[:6]) == 0:
        raise ValueError(f"{name} must be a number of pixels above 0, not {text!r}.")
    return int(text[:6])
