"""Content security policy of every page: scripts, styles and requests of this site only.

Other sites may frame only the embedded player of a share link and the recorded Echo Trap, which show nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

REPORTS = "/csp-report"
"""Address for browsers' reports of violations (webapp/operations/csp_reports.py)."""
ENDPOINT = "csp"


def policy(ancestors: str) -> str:
    """Return the policy of a page that may be framed by `ancestors`."""
    return "; ".join(
        [
            "default-src 'self'",
            "img-src 'self' data:",
            "object-src 'none'",
            "base-uri 'none'",
            "form-action 'self'",
            f"frame-ancestors {ancestors}",
            f"report-uri {REPORTS}",  # for Firefox, which does not know the other directive yet
            f"report-to {ENDPOINT}",
        ]
    )


POLICY = policy("'none'")
FRAMED_POLICY = policy("*")
OWN_FRAME_POLICY = policy("'self'")
"""Policy of pages that only pages of this site may frame."""

View = Callable[[HttpRequest], HttpResponse]


def content_security_policy(get_response: View) -> View:
    """Add the policy, and the address for reports of violations, to responses without a policy; a middleware."""

    def answer(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        response.headers["Reporting-Endpoints"] = f'{ENDPOINT}="{REPORTS}"'
        return response

    return answer
