"""Comparison of runs, and the data of its curves."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from webapp.explorer import compare as compared
from webapp.explorer import run_groups
from webapp.explorer.comparison_headline import headline
from webapp.pages.curve_data import curves_response
from webapp.pages.play_cards import PlayCard
from webapp.runs import curves
from webapp.runs.models import Evaluation, Run
from webapp.teams.decorators import account_optional
from webapp.trajectories.sharing.public import training_point

MAX_RECENT = 40
"""Maximum number of recent runs offered for comparison."""


def requested_slugs(request: HttpRequest) -> list[str]:
    """Return the distinct slugs of the query: `runs=a,b` or `runs=a&runs=b`."""
    slugs = (slug.strip() for part in request.GET.getlist("runs") for slug in part.split(","))
    return list(dict.fromkeys(slug for slug in slugs if slug))


def _runs(request: HttpRequest) -> tuple[list[Run], list[str]]:
    """Return the runs to compare, in the requested order, and a message for each omitted one."""
    requested = requested_slugs(request)
    visible = Run.objects.visible_to(request.user).with_alarm().select_related("author", "team").defer("log_tail")
    by_slug = {run.slug: run for run in visible.filter(slug__in=requested[:100])}
    problems = [
        f"Run {slug[:40]!r} does not exist or belongs to a team you are not in. It was left out."
        for slug in requested[:100]
        if slug not in by_slug
    ]
    runs = [by_slug[slug] for slug in requested if slug in by_slug]
    if len(runs) > compared.MAX_RUNS:
        problems.append(f"At most {compared.MAX_RUNS} runs can be compared; the others were left out.")
    if not request.user.is_authenticated and (problems or not runs):
        raise Http404("This run does not exist, or it requires an account.")
    return runs[: compared.MAX_RUNS], problems


def _evaluated(runs: list[Run]) -> list[Run]:
    """Return the runs with results to compare. One query."""
    evaluated = set(Evaluation.objects.filter(run__in=runs).values_list("run_id", flat=True))
    return [run for run in runs if run.pk in evaluated]


@account_optional
@require_GET
@never_cache
def compare(request: HttpRequest) -> HttpResponse:
    """Show overlaid curves, differing settings, results, and the same prompt in each run."""
    runs, problems = _runs(request)
    slugs = [run.slug for run in runs]
    sides = compared.sides(runs) if runs else []
    suites = compared.suites(runs) if runs else []
    requested_suite = request.GET.get("suite", "")
    suite = requested_suite if requested_suite in suites else next(iter(suites), "")
    prompt = compared.prompt(sides, suite, _puzzle(request.GET)) if suite else None
    keys = [run.pk for run in runs]
    everything = curves.sections(curves.load_metric_names(keys))
    overview, sections = curves.split_overview(everything, runs[0].environment if runs else "")
    others = Run.objects.listed_for(request.user).with_alarm().exclude(slug__in=slugs).order_by("-created_at")
    recent = list(others.defer("log_tail", "summary", *(("config",) if len(runs) > 1 else ()))[:MAX_RECENT])
    of = runs[0] if len(runs) == 1 else None
    suggested = run_groups.suggestions([*runs, *_evaluated(recent)], compared.MAX_RUNS, of) if len(runs) < 2 else []
    context = {
        "page": "compare",
        "sides": sides,
        "problems": problems,
        "slugs": ",".join(slugs),
        "without": {slug: ",".join(other for other in slugs if other != slug) for slug in slugs},
        "data_address": f"{reverse('compare-curves-data')}?{urlencode({'runs': ','.join(slugs)})}",
        "sources": [side.source for side in sides],
        "headline": headline(sides),
        "unequal": compared.unequal_text(sides),
        "overview": overview,
        "sections": sections,
        "opened": curves.opened(sections, several=True),
        "catalog": curves.catalog(everything),
        "extent": curves.extent(keys, overview, sections),
        "averaged": compared.averaged(sides),
        "differences": compared.differences(runs),
        "active": any(run.state in (Run.State.QUEUED, *Run.HELD) for run in runs),
        "task_noun": compared.task_noun(runs),
        "suites": suites,
        "suite": suite,
        "prompt": prompt,
        "plays": [_play_card(play, compared.task_noun(runs)) for play in prompt.plays] if prompt else [],
        "play_data": [play.data for play in prompt.plays if play.data] if prompt else [],
        "recent": recent,
        "suggested": suggested,
        "most": compared.MAX_RUNS,
    }
    return render(request, "runs/compare.html", context)


@account_optional
@require_GET
@never_cache
def compare_curves_data(request: HttpRequest) -> JsonResponse:
    """Return the curves of the runs in buckets, in the format of a single run's curves.json."""
    runs, _ = _runs(request)
    return curves_response(request.GET, runs)


def _play_card(play: compared.Play, task_noun: str) -> PlayCard:
    side = play.side
    return PlayCard(
        label=f"{side.letter}, {side.run.title}",
        title=side.run.title,
        number=side.number,
        trajectory=play.trajectory,
        data=play.data,
        letter=side.letter,
        played=training_point(play.trajectory) if play.trajectory else "",
        missing=f"This run has not played this {task_noun}{', or not from this state' if side.result else ''}.",
    )


def _puzzle(query: QueryDict) -> int:
    """Return the number of the requested puzzle, from 0. `puzzle` counts from 1, and `prompt` of old links from 0."""
    puzzle = query.get("puzzle", "")
    return max(0, _whole(puzzle) - 1) if puzzle else _whole(query.get("prompt", "0"))


def _whole(text: str) -> int:
    return int(text[:6]) if text.isascii() and text.isdigit() else 0
