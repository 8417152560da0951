"""Content security policy of every page: scripts, styles and requests of this site only.

Other sites may frame only the embedded player of a share link.
"""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

REPORTS = "/csp-report"
"""Where browsers report violations (webapp/operations/csp_reports.py)."""
ENDPOINT = "csp"


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
            f"report-uri {REPORTS}",  # of Firefox, which does not know the other one yet
            f"report-to {ENDPOINT}",
        ]
    )


POLICY = policy("'none'")
FRAMED_POLICY = policy("*")
OWN_FRAME_POLICY = policy("'self'")
"""Of pages that only pages of this site frame."""

View = Callable[[HttpRequest], HttpResponse]


def content_security_policy(get_response: View) -> View:
    """Middleware that adds the policy to responses that have none, and where its violations are reported."""

    def answer(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        response.headers["Reporting-Endpoints"] = f'{ENDPOINT}="{REPORTS}"'
        return response

    return answer
