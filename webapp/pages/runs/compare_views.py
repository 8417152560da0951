"""The page that compares runs, and the data of its curves. What is compared stands in compare.py."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from webapp.core import formatting
from webapp.explorer import compare as compared
from webapp.pages.curve_data import curves_response
from webapp.runs import curves
from webapp.runs.models import Run
from webapp.teams.decorators import account_optional
from webapp.trajectories.board_text import board_text

OFFERED = 40
"""How many recent runs can be chosen on the page itself."""


def asked_slugs(request: HttpRequest) -> list[str]:
    """`runs=a,b` and `runs=a&runs=b` alike; none twice."""
    given = (slug.strip() for part in request.GET.getlist("runs") for slug in part.split(","))
    return list(dict.fromkeys(slug for slug in given if slug))


def _found(request: HttpRequest) -> tuple[list[Run], list[str]]:
    """The runs to compare, in the order asked for, and what had to be left out, in words."""
    asked = asked_slugs(request)
    visible = Run.objects.visible_to(request.user).select_related("author", "team").defer("log_tail")
    by_slug = {run.slug: run for run in visible.filter(slug__in=asked[:100])}
    problems = [
        f"There is no run {slug[:40]!r}, or it belongs to a team you are not in: it is left out."
        for slug in asked[:100]
        if slug not in by_slug
    ]
    runs = [by_slug[slug] for slug in asked if slug in by_slug]
    if len(runs) > compared.MAX_RUNS:
        problems.append(f"At most {compared.MAX_RUNS} runs can be compared: the first {compared.MAX_RUNS} are.")
    if not request.user.is_authenticated and (problems or not runs):
        raise Http404("There is no such run, or it needs an account.")
    return runs[: compared.MAX_RUNS], problems


@account_optional
@require_GET
@never_cache
def compare(request: HttpRequest) -> HttpResponse:
    """Curves over each other, the settings that differ, how the runs ended, the same prompt played by each."""
    runs, problems = _found(request)
    slugs = [run.slug for run in runs]
    sides = compared.sides(runs) if runs else []
    suites = compared.suites(runs) if runs else []
    asked_suite = request.GET.get("suite", "")
    suite = asked_suite if asked_suite in suites else next(iter(suites), "")
    prompt = compared.prompt(sides, suite, _whole(request.GET.get("prompt", "0"))) if suite else None
    summaries = curves.summaries([run.pk for run in runs]) if runs else {}
    recent = Run.objects.of_teams_of(request.user).exclude(slug__in=slugs)
    context = {
        "page": "compare",
        "sides": sides,
        "problems": problems,
        "slugs": ",".join(slugs),
        "without": {slug: ",".join(other for other in slugs if other != slug) for slug in slugs},
        "data_address": f"{reverse('compare-curves-data')}?{urlencode({'runs': ','.join(slugs)})}",
        "sources": [side.source for side in sides],
        "sections": curves.sections({name for _, name in summaries}),
        "differences": compared.differences(runs),
        "active": any(run.state in (Run.State.QUEUED, *Run.HELD) for run in runs),
        "suites": suites,
        "suite": suite,
        "prompt": prompt,
        "plays": [_shown(play) for play in prompt.plays] if prompt else [],
        "play_data": [play.data for play in prompt.plays if play.data] if prompt else [],
        "recent": list(recent.order_by("-created_at").defer("log_tail", "config", "summary")[:OFFERED]),
        "most": compared.MAX_RUNS,
    }
    return render(request, "runs/compare.html", context)


@account_optional
@require_GET
@never_cache
def compare_curves_data(request: HttpRequest) -> JsonResponse:
    """Buckets of the runs' curves, as curves.json of a single run has them."""
    runs, _ = _found(request)
    return curves_response(
        request.GET, runs, lambda: sorted({name for _, name in curves.summaries([run.pk for run in runs])})
    )


def _shown(play: compared.Play) -> dict[str, Any]:
    """A play as the page shows it before any script runs."""
    data = play.data
    if data is None or play.trajectory is None:
        return {"side": play.side, "trajectory": None}
    return {
        "side": play.side,
        "trajectory": play.trajectory,
        "data": data,
        "board_text": board_text(data["board"]),
        "outcome": formatting.outcome(
            data["success"], data["end"], len(data["turns"]), play.trajectory.action_count, data["lost_at"]
        ),
    }


def _whole(text: str) -> int:
    return int(text[:6]) if text.isascii() and text.isdigit() else 0
