"""Reports of browsers about violations of the content security policy: counted, and logged once an hour each.

Anyone can send them, so their number is limited. Only three parts are logged: the violated directive, scheme and
host of what was blocked, and the view of the page, because its address may contain a secret.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, resolve
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from prometheus_client import Counter

from webapp.core.token_buckets import TokenBucket, take
from webapp.teams.client_address import client_address

logger = logging.getLogger(__name__)

REPORTS = Counter("echoscope_csp_reports", "Violations of the content security policy, by directive.", ("directive",))
DIRECTIVES = frozenset(
    f"{kind}-src{part}"
    for kind in ("default", "script", "style", "img", "font", "connect", "media", "object", "frame", "worker", "child")
    for part in ("", "-elem", "-attr")
) | {"base-uri", "form-action", "frame-ancestors", "manifest-src"}
WORDS = frozenset({"inline", "eval", "data", "blob", "self", "wasm-eval", "trusted-types-sink"})
"""Blocked sources that are not addresses."""
MEDIA_TYPES = ("application/csp-report", "application/reports+json", "application/json")
PER_VISITOR, PER_SITE = 10, 30
"""Requests a minute that are read."""
MAX_BYTES = 16_384
MAX_REPORTS = 10
LOG_EVERY = 3600.0


@csrf_exempt
@require_POST
def csp_report(request: HttpRequest) -> HttpResponse:
    """Receive a browser's reports, from `report-uri` (one object) or `report-to` (a list)."""
    if request.content_type not in MEDIA_TYPES:
        return HttpResponse(status=415)
    if len(request.body) > MAX_BYTES:
        return HttpResponse(status=413)
    budget = (TokenBucket(f"csp:{client_address(request)}", PER_VISITOR), TokenBucket("csp", PER_SITE))
    if take(settings.REDIS_URL, budget).wait:
        return HttpResponse(status=429)
    for directive, blocked, page in violations(request.body):
        REPORTS.labels(directive).inc()
        if cache.add(f"csp:{directive}:{blocked}:{page}", 1, LOG_EVERY):
            logger.warning("The content security policy blocked %s (%s) on the page %s.", blocked, directive, page)
    return HttpResponse(status=204)


def violations(body: bytes) -> Iterator[tuple[str, str, str]]:
    """Yield (directive, blocked source, view of the page) of each report in a body from any browser, or an attacker."""
    try:
        sent = json.loads(body)
    except (ValueError, RecursionError):
        return
    for report in (sent if isinstance(sent, list) else [sent])[:MAX_REPORTS]:
        facts = report.get("csp-report", report.get("body")) if isinstance(report, dict) else None
        if isinstance(facts, dict):
            directive = _text(facts, "effectiveDirective", "effective-directive", "violated-directive").split(" ")[0]
            blocked = _blocked(_text(facts, "blockedURL", "blocked-uri"))
            page = _view(_text(facts, "documentURL", "document-uri"))
            yield directive if directive in DIRECTIVES else "other", blocked, page


def _text(facts: dict[str, Any], *names: str) -> str:
    return next((value for name in names if isinstance(value := facts.get(name), str)), "")


def _blocked(address: str) -> str:
    """Return scheme and host of a blocked address, or a word such as `inline`."""
    if address in WORDS:
        return address
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return "something"
    shown = f"{parts.scheme}://{host}"[:100] if parts.scheme and host else parts.scheme[:20]
    return shown if shown.isascii() and shown.isprintable() and shown else "something"


def _view(address: str) -> str:
    try:
        return resolve(urlsplit(address).path).view_name or "unknown"
    except (Resolver404, ValueError):
        return "unknown"
