"""Search of the command palette: runs, environments and teams that the user may open."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import HttpRequest, JsonResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

import envs
from webapp.core import formatting
from webapp.runs.models import Run
from webapp.teams.access import get_memberships, signed_in
from webapp.teams.models import User

MAX_QUERY_LENGTH = 100
MAX_WORDS = 10
MAX_RUNS = 8
MAX_OTHERS = 5
Item = dict[str, str]


@login_required
@require_GET
@never_cache
def palette(request: HttpRequest) -> JsonResponse:
    """Return groups of results for `?q=`, or the newest runs without a query. At most two database queries."""
    user, words = signed_in(request), request.GET.get("q", "")[:MAX_QUERY_LENGTH].split()[:MAX_WORDS]
    groups = [("Runs", _runs(user, words))]
    if words:
        groups += [("Environments", _environments(words)), ("Teams", _teams(user, words))]
    return JsonResponse({"groups": [{"title": title, "items": items} for title, items in groups if items]})


def _runs(user: User, words: list[str]) -> list[Item]:
    """Return the newest runs that contain each word in their title, tags or environment."""
    runs = Run.objects.listed_for(user)
    for word in words:
        runs = runs.filter(
            Q(title__icontains=word)
            | Q(tags__icontains=word)
            | Q(environment__icontains=word)
            | Q(state=word.lower())
            | Q(slug=word)
        )
    newest = runs.filter(archived_at__isnull=True).order_by("-created_at", "-pk")
    matches = newest.only("slug", "title", "tags", "environment", "state", "requested", "created_at")[:MAX_RUNS]
    return [
        {
            "title": run.title,
            "detail": " · ".join([formatting.STATES[run.shown_state], run.environment, *run.tags]),
            "href": reverse("run", args=[run.slug]),
        }
        for run in matches
    ]


def _environments(words: list[str]) -> list[Item]:
    items: list[Item] = []
    adapters = [name for name in envs.names() if envs.variants(name)]
    for name in envs.names():
        title = name if name in adapters else envs.spec(name).title
        if _contains(f"{title} {name} environment", words):
            items.append({"title": title, "detail": "Environment", "href": reverse("environment", args=[name])})
    for name in adapters:
        page = reverse("environment", args=[name])
        for variant, about in envs.variants(name).items():
            if _contains(f"{variant} {about} {name} environment", words):
                items.append(
                    {"title": variant, "detail": f"Variant of {name}", "href": f"{page}?{urlencode({'id': variant})}"}
                )
    return items[:MAX_OTHERS]


def _teams(user: User, words: list[str]) -> list[Item]:
    return [
        {
            "title": membership.team.name,
            "detail": f"Team · {membership.get_role_display().lower()}",
            "href": reverse("team", args=[membership.team.slug]),
        }
        for membership in get_memberships(user)
        if _contains(f"{membership.team.name} team", words)
    ][:MAX_OTHERS]


def _contains(text: str, words: list[str]) -> bool:
    return all(word.lower() in text.lower() for word in words)
