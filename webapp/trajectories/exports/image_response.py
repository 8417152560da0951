"""Response with an image of an observation, for pages and for the API."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils.cache import get_conditional_response

from webapp.trajectories.models import Trajectory
from webapp.trajectories.observation_images import find_image, read_image

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""The type is one of three that was checked, and a browser that opens the file sees only an image."""


def image_response(request: HttpRequest, trajectory: Trajectory, sha256: str) -> HttpResponse | None:
    """Return the image with that hash and its checked type; None if no turn refers to it, or the file is missing."""
    image = find_image(trajectory, sha256)
    if image is None:
        return None
    tag = f'"{sha256}"'
    unchanged = get_conditional_response(request, etag=tag)
    if isinstance(unchanged, HttpResponse):
        for name, value in _HEADERS.items():  # a cache replaces the headers that it has stored
            unchanged[name] = value
        return unchanged
    data = read_image(trajectory.run, image)
    if data is None:
        return None
    return HttpResponse(data, content_type=image.media_type, headers=_HEADERS | {"ETag": tag})
