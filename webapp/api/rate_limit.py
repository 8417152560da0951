"""Rate limit of the API: requests a minute by one token, and by all tokens of its team."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from webapp.api.errors import Problem
from webapp.core.formatting import plural
from webapp.core.quotas import quota
from webapp.core.token_buckets import PERIOD, Taken, TokenBucket, take
from webapp.teams.models import ApiToken

TAKEN = "_rate_limit"
"""Attribute of a request that was counted."""

View = Callable[[HttpRequest], HttpResponse]


def require_rate(request: HttpRequest, token: ApiToken) -> None:
    """Count the request. Raises Problem 429 if the token or its team has made too many; then it is not counted."""
    limits = (
        TokenBucket(f"token:{token.pk}", quota("REQUESTS_PER_MINUTE_PER_TOKEN")),
        TokenBucket(f"team:{token.team_id}", quota("REQUESTS_PER_MINUTE_PER_TEAM")),
    )
    buckets = [bucket for bucket in limits if bucket.capacity]
    if not buckets:
        return
    taken = take(settings.REDIS_URL, buckets)
    setattr(request, TAKEN, taken)
    if taken.wait:
        limit = taken.bucket.capacity
        whose = "this token" if taken.bucket is limits[0] else "all tokens of your team together"
        raise Problem(
            429,
            f"Too many requests: {whose} may send {limit:,} a minute. Nothing was changed. Wait for "
            f"{plural(taken.retry_after, 'second')}, as the header Retry-After says, then send it again.",
        )


def rate_limit_headers(get_response: View) -> View:
    """Tell programs how many requests they have left: RateLimit-*, and Retry-After with 429; a middleware."""

    def answer(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        taken: Taken | None = getattr(request, TAKEN, None)
        if taken is not None:
            limit = taken.bucket.capacity
            response["RateLimit-Limit"] = str(limit)
            response["RateLimit-Remaining"] = str(taken.remaining)
            response["RateLimit-Reset"] = str(taken.reset)
            response["RateLimit-Policy"] = f"{limit};w={PERIOD:.0f}"
            if taken.wait:
                response["Retry-After"] = str(taken.retry_after)
        return response

    return answer
