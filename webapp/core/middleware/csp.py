"""Content security policy of every page: scripts, styles and requests of this site only.

Other sites may frame only the embedded player of a share link.
"""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse


def policy(ancestors: str) -> str:
    """The policy of a page that may be framed by `ancestors`."""
    return "; ".join(
        [
            "default-src 'self'",
            "img-src 'self' data:",
            "object-src 'none'",
            "base-uri 'none'",
            "form-action 'self'",
            f"frame-ancestors {ancestors}",
        ]
    )


POLICY = policy("'none'")
FRAMED_POLICY = policy("*")
OWN_FRAME_POLICY = policy("'self'")
"""Of pages that only pages of this site frame."""

View = Callable[[HttpRequest], HttpResponse]


def content_security_policy(get_response: View) -> View:
    """Middleware that adds the policy to responses that have none."""

    def answer(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        return response

    return answer
