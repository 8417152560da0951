"""List of runs: filters, order, pages, selection for comparison, and polling for changes.

An open page polls for its rows and gets all of them, or 204 if nothing changed, so that it always equals a reload.
"""

from __future__ import annotations

import hashlib
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.utils.safestring import mark_safe
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from webapp.explorer.compare import MAX_RUNS
from webapp.pages.saved_views_menu import saved_views
from webapp.runs import run_filters, summaries
from webapp.runs.listing.folds import FoldedRuns, fold, fold_rows
from webapp.runs.model_cards.real_model import real_model_offer
from webapp.runs.models import Run
from webapp.saved_views.models import SavedView
from webapp.teams.access import writable_teams
from webapp.trajectories.render.run_boards import run_boards

ROWS_PER_PAGE = 30
BUSY_SECONDS, QUIET_SECONDS = 3, 20
"""Polling intervals: with an active run on the page, and without (a colleague may launch one)."""
DIGEST = "the-digest-of-these-rows"
"""Placeholder in the rendered rows for their own digest."""


@login_required
@require_GET
@never_cache
def run_list(request: HttpRequest) -> HttpResponse:
    """Show the runs of the user's teams. `?compare_now` redirects to the comparison of the selected ones."""
    chosen = [slug for value in request.GET.getlist("compare") for slug in value.split(",")]  # a folded row has several
    if "compare_now" in request.GET and chosen:
        visible = set(Run.objects.visible_to(request.user).filter(slug__in=chosen).values_list("slug", flat=True))
        return redirect(f"/compare?runs={','.join(slug for slug in chosen if slug in visible)}")
    rows, digest = _rows(request, chosen)
    if request.headers.get("HX-Request"):
        if request.headers.get("X-Seen") == digest:
            return HttpResponse(status=204)
        return HttpResponse(rows)
    listing = run_filters.read(request.GET)
    context: dict[str, Any] = {
        "page": "runs",
        "rows": rows,
        "wanted": listing,
        "states": [(run_filters.ACTIVE, "Queued or running"), *Run.State.choices],
        "variants": [(key, title) for key, (title, _) in run_filters.VARIANTS.items()],
        "estimators": summaries.ESTIMATORS.items(),
        "sorts": listing.sorts,
        "columns": listing.columns,
        "saved_views": saved_views(request, SavedView.List.RUNS),
        "real_model": real_model_offer() if writable_teams(request.user) else None,
        "view_query": run_filters.query(listing),
        **run_filters.choices(request.user),
    }
    context["group_runs"], context["group_label"] = _group_comparison(request, listing)
    context["any"] = listing.filtered or bool(context["environments"])
    return render(request, "runs/list.html", context)


def _group_comparison(request: HttpRequest, listing: run_filters.Listing) -> tuple[str, str]:
    """Return slugs of the chosen group's runs for the address of their comparison, in launch order, and a label.

    Without a team in the address, the group belongs to the team that launched a group of that name last.
    """
    if not listing.group:
        return "", ""
    runs = Run.objects.listed_for(request.user).filter(group=listing.group, archived_at__isnull=True)
    if listing.team:
        slugs = list(runs.filter(team__slug=listing.team).order_by("pk").values_list("slug", flat=True))
    else:
        slugs_and_teams = list(runs.order_by("pk").values_list("slug", "team_id"))
        slugs = [slug for slug, team in slugs_and_teams if team == slugs_and_teams[-1][1]]
    label = f"Compare the first {MAX_RUNS} of {len(slugs)} runs" if len(slugs) > MAX_RUNS else "Compare all of its runs"
    return ",".join(slugs[:MAX_RUNS]), label


def _rows(request: HttpRequest, chosen: list[str]) -> tuple[str, str]:
    """Return the part of the page that changes, which contains its digest, and the digest."""
    listing = run_filters.read(request.GET)
    runs = listing.runs(request.user)
    if listing.flat:
        folded = [FoldedRuns("", "", {pk: ""}) for pk in runs.values_list("pk", flat=True)]
    else:
        folded = fold(runs, by_group=not listing.group)
    unfolded = request.GET.get("open", "").split()
    page = Paginator(folded, ROWS_PER_PAGE).get_page(request.GET.get("page"))
    rows = fold_rows(list(page.object_list), unfolded)
    cards = [card for row in rows for card in ([row] if isinstance(row, summaries.RunSummary) else row.rows)]
    teams = {run.team_id for row in rows for run in ([row.run] if isinstance(row, summaries.RunSummary) else row.runs)}
    context = {
        "page_obj": page,
        "rows": [
            {"run": row}
            if isinstance(row, summaries.RunSummary)
            else {"fold": row, "open": _toggled(unfolded, row.key)}
            for row in rows
        ],
        "boards": {} if "board" in listing.hide.split() else run_boards((card.run.pk, card.trained) for card in cards),
        "columns": listing.columns,
        "wanted": listing,
        "filtered": listing.filtered,
        "several_teams": len(teams) > 1,
        "chosen": chosen,
        "seconds": BUSY_SECONDS if any(row.active for row in rows) else QUIET_SECONDS,
        "digest": DIGEST,
    }
    text = render_to_string("runs/_rows.html", context, request)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return mark_safe(text.replace(DIGEST, digest)), digest  # rendered by a template, which escapes user input


def _toggled(unfolded: list[str], key: str) -> str | None:
    """Return the keys of the unfolded rows after a click on this row; None if there are none."""
    keys = [other for other in unfolded if other != key] if key in unfolded else [*unfolded, key]
    return " ".join(keys) or None
