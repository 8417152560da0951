"""Addresses that are nearly right: with a slash too many or too few, or with punctuation at the end."""

from __future__ import annotations

from collections.abc import Iterator

from django.http import HttpRequest
from django.urls import Resolver404, resolve

PUNCTUATION = ".,;:!?)]}>'\"*_`|\u2019\u201d\u00bb\u2026"
"""Characters that chats, sentences and Markdown append to a link."""
RUN_LISTS = ("/runs", "/runs/")
"""Addresses that people guess for the list of runs, which is the front page."""


def nearest_address(request: HttpRequest) -> str | None:
    """Return the address of the site that was probably meant, with the request's query; None if there is none.

    Only for an address that no route matches: objects that a route did not find stay not found.
    """
    if request.method not in ("GET", "HEAD") or _resolves(request.path_info):
        return None
    for path in _candidates(request.path_info):
        if path == "/" or _resolves(path):
            query = request.META.get("QUERY_STRING", "").rstrip(PUNCTUATION)
            return request.path.removesuffix(request.path_info) + path + (f"?{query}" if query else "")
    return None


def _candidates(path: str) -> Iterator[str]:
    if path in RUN_LISTS:
        yield "/"
    bare = path.rstrip(PUNCTUATION)
    for end in (bare, bare.rstrip("/"), f"{bare.rstrip('/')}/"):
        if end not in ("", path) and not end.startswith("//"):
            yield "/" if end.rstrip("/") in RUN_LISTS else end


def _resolves(path: str) -> bool:
    try:
        resolve(path)
    except Resolver404:
        return False
    return True
