"""View counts of share links: one per visitor and day, without robots.

A cookie limited to the link's path records that the browser was counted; it contains nothing else. Visitors cannot be
identified, and no data about them is stored.
"""

from __future__ import annotations

import re
from datetime import timedelta

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from webapp.trajectories.actions import do_count_view
from webapp.trajectories.models import ShareLink

SEEN_COOKIE = "echoscope_seen"
VIEW_INTERVAL = timedelta(days=1)
ROBOTS = re.compile(
    r"bot\b|bot/|crawl|spider|slurp|preview|fetch|scrape|archiver|monitor|validator|facebookexternalhit|embedly|iframely"
    r"|whatsapp|telegram|skype|discord|slack|vkshare|quora|pinterest|curl|wget|httpie|python|java/|okhttp|go-http|libwww"
    r"|node\b|axios|lighthouse",
    re.IGNORECASE,
)
PREFETCH = ("Sec-Purpose", "Purpose", "X-Purpose", "X-Moz")


def is_view(request: HttpRequest, link: ShareLink) -> bool:
    """Return True if the request counts: no robot, no prefetch, not the link's author, not the same day again."""
    if request.method != "GET" or SEEN_COOKIE in request.COOKIES:
        return False
    agent = request.headers.get("User-Agent", "")
    if not agent or ROBOTS.search(agent):
        return False
    if any("pre" in request.headers.get(name, "").lower() for name in PREFETCH):
        return False
    return not (request.user.is_authenticated and request.user.pk == link.author_id)


def count_view(request: HttpRequest, response: HttpResponse, link: ShareLink, *, framed: bool = False) -> None:
    """Count the view and set the cookie. In a third-party iframe only https cookies are stored."""
    if not is_view(request, link):
        return
    do_count_view(link, timezone.now())
    secure = request.is_secure()
    response.set_cookie(
        SEEN_COOKIE,
        "1",
        max_age=VIEW_INTERVAL,
        path=request.path,
        secure=secure or settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="None" if framed and secure else "Lax",
    )
