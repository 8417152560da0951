"""Explorer of a run's trajectories: the page, its filtered part for htmx, and live counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from trainer.metrics.training_use import TRAINING_USES
from webapp.annotations.models import Tag
from webapp.explorer import rows
from webapp.explorer.counts import facts
from webapp.explorer.facets import Survey, survey
from webapp.explorer.filter_values import CLAIMS, FORMATS, MARKS, OUTCOMES
from webapp.explorer.open_view import OpenView, draw_sample, is_sample, labels_of, open_view, summarize_labels
from webapp.explorer.scanners import SCANNERS
from webapp.explorer.trajectory_filters import DEFAULT_SORT, Filters, filter_trajectories
from webapp.live.snapshot import one_moment
from webapp.pages.run_page import run_page
from webapp.pages.saved_views_menu import saved_views
from webapp.runs.access import get_run
from webapp.runs.models import Run
from webapp.saved_views.models import SavedView
from webapp.teams.access import role_in_team
from webapp.teams.decorators import account_optional
from webapp.teams.models import Membership
from webapp.trajectories.end_reasons import END_REASONS
from webapp.trajectories.models import Group
from webapp.trajectories.pagination import BadCursor, CursorPage, page

PAGE_SIZE = 50
UNFINISHED = (Run.State.QUEUED, *Run.HELD)
MORE_FILTERS = (
    "reward",
    "turns",
    "actions",
    "tokens",
    "format",
    "claims",
    "truth",
    "break",
    "mark",
    "mistake",
    "training",
    "kept",
    "alarm",
    "pattern",
    "group",
    "starred",
    "tag",
    "suite",
)
"""Filters under “More filters”, which is open if one of them is set."""


@account_optional
@require_GET
@never_cache
def explorer(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the trajectories of the run, filtered, sorted and paginated."""
    run = get_run(request.user, slug)
    inside = role_in_team(request.user, run.team_id) is not None
    part = bool(request.headers.get("HX-Request")) and not request.headers.get("HX-History-Restore-Request")
    with one_moment():
        context = _context(request, run, inside)
        if part:
            response = render(request, "runs/_trajectories.html", {"run": run, "part": True} | context)
            query = context["address_query"]
            address = reverse("run-trajectories", args=[run.slug])
            response["HX-Push-Url"] = f"{address}?{query}" if query else address
        else:
            known = Tag.objects.known_to(request.user).filter(team=run.team_id)
            tags = list(known.values_list("name", flat=True)[:200]) if inside else []
            response = run_page(
                request,
                run,
                "run-trajectories",
                "runs/trajectories.html",
                outcomes=OUTCOMES,
                reasons=END_REASONS,
                formats=FORMATS,
                claim_choices=CLAIMS,
                mark_choices=MARKS,
                training_uses=TRAINING_USES,
                team_tags=tags,
                **context,
            )
    patch_vary_headers(response, ["HX-Request"])
    return response


@account_optional
@require_GET
@never_cache
def explorer_counts(request: HttpRequest, slug: str) -> JsonResponse:
    """Return the current counts of the filters, for pages of an active run."""
    run = get_run(request.user, slug)
    filters = _filters(request, role_in_team(request.user, run.team_id) is not None)[0]
    totals = facts(run, filters)
    return JsonResponse({"seq": run.seq, "found": totals.found, "words": rows.facts_text(totals)})


def _filters(request: HttpRequest, inside: bool) -> tuple[Filters, dict[str, str]]:
    filters, errors = Filters.parse(request.GET)
    return (filters if inside else filters.without_annotations()), errors


@dataclass(frozen=True)
class _Listed:
    """The attempts of the page and what is said above them."""

    page: CursorPage
    facts: str
    stale: str = ""
    survey: Survey | None = None
    counts: dict[str, int] | None = None
    """Numbers that open pages of an active run update."""


def _context(request: HttpRequest, run: Run, inside: bool) -> dict[str, Any]:
    filters, errors = _filters(request, inside)
    view = open_view(run, filters)
    filters = filters if view else replace(filters, view="")
    groups = Group.objects.filter(run=run, superseded=False).order_by("environment", "suite")
    kinds = list(groups.values_list("environment", "suite").distinct())
    environments = sorted({environment for environment, _ in kinds})
    several = len(environments) > 1
    form = rows.form(request.GET, errors)
    sample = view is not None and is_sample(filters)
    listed = _sample(run, view, filters) if view and sample else _found(request, run, filters, several)
    current = listed.page
    labels = labels_of(view, current.items) if view else {}
    return {
        "inside": inside,
        "rows": rows.rows(current.items, filters, labels),
        "columns": rows.columns(filters, run.task_noun, several, sorted=not (sample and filters.sort == DEFAULT_SORT)),
        "several": several,
        "environments": environments,
        "suites": sorted({suite for _, suite in kinds if suite}),
        "form": form,
        "errors": errors,
        "chosen": rows.active_filters(filters),
        "more_open": any(field.value for name, field in form.items() if name.split("_")[0] in MORE_FILTERS),
        "facts": listed.facts,
        "survey": listed.survey,
        "hide": filters.hide,
        "false_kinds": " ".join(filters.false_claim_kinds or ()),
        "hideable": rows.hideable(filters, several),
        "sort": filters.sort,
        "stale": listed.stale,
        "changing": run.state in UNFINISHED,
        "counts": listed.counts,
        "first_query": filters.query(),
        "scanners": SCANNERS,
        "saved_views": saved_views(request, SavedView.List.TRAJECTORIES),
        "next_query": current.next and filters.query(at=current.next),
        "previous_query": current.previous and filters.query(at=current.previous),
        "address_query": filters.query(at=None if listed.stale else request.GET.get("at") or None),
        "played": bool(kinds),
        "view": view,
        "sample": sample,
        "labels": summarize_labels(request.user, run.team_id, view) if view else None,
        "may_label": role_in_team(request.user, run.team_id) in Membership.WRITERS,
    }


def _found(request: HttpRequest, run: Run, filters: Filters, several: bool) -> _Listed:
    current, stale = _page(request, run, filters)
    surveyed = survey(run, filters, several_environments=several)
    totals = surveyed.totals or facts(run, filters)
    counts = {"seq": run.seq, "found": totals.found} if run.state in UNFINISHED else None
    return _Listed(current, rows.facts_text(totals), stale, surveyed, counts)


def _sample(run: Run, view: OpenView, filters: Filters) -> _Listed:
    """Return a random sample of what the view does not find, in random order unless it is sorted."""
    drawn = draw_sample(run, view).select_related("group")
    if filters.sort == DEFAULT_SORT:
        current = CursorPage(list(drawn.order_by("slug")), None, None)
    else:
        current = page(drawn, filters.sort, None, PAGE_SIZE)
    return _Listed(current, f"{len(current.items)} drawn at random")


def _page(request: HttpRequest, run: Run, filters: Filters) -> tuple[CursorPage, str]:
    """Return the page at the query's cursor; for an invalid cursor the first page and an explanation."""
    queryset = filter_trajectories(run, filters).select_related("group")
    try:
        return page(queryset, filters.sort, request.GET.get("at") or None, PAGE_SIZE), ""
    except BadCursor as bad:
        return page(queryset, filters.sort, None, PAGE_SIZE), str(bad)
