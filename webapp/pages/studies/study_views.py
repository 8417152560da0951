"""List of studies, a study with its results so far, requests to all of its runs, its visibility, its exports."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.db.models import Count, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import content_disposition_header
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from webapp.core.quotas import QuotaExceeded
from webapp.core.soft_delete import UNDO_TIME
from webapp.pages.link_previews import study_preview
from webapp.pages.trajectory_page import NO_FORMS
from webapp.runs.actions import RequestRefused
from webapp.runs.models import Run
from webapp.studies.access import get_study, get_study_to_steer
from webapp.studies.actions import ACTIONS, do_control_study, do_share_study
from webapp.studies.arm_charts import build_charts
from webapp.studies.models import Study
from webapp.studies.seen_study import SeenStudy, seen_by
from webapp.studies.study_export import FORMATS, exported
from webapp.teams.access import role_in_team, writable_teams
from webapp.teams.decorators import account_optional
from webapp.teams.models import Membership

STUDIES_PER_PAGE = 30
REFRESH_SECONDS = 10
VISIBILITY_MESSAGES = {
    Study.Visibility.TEAM: "This study is now visible to the team only.",
    Study.Visibility.LINK: "Anyone with the link can now read this study, without an account.",
}


@login_required
@require_GET
@never_cache
def studies(request: HttpRequest) -> HttpResponse:
    """Show the studies of the user's teams, newest first."""
    member = "arms__members"
    rows = (
        Study.objects.listed_for(request.user)
        .select_related("team", "author")
        .annotate(
            run_count=Count(member),
            ended_count=Count(member, filter=Q(**{f"{member}__run__state__in": Run.ENDED})),
            failed_count=Count(member, filter=Q(**{f"{member}__run__state": Run.State.FAILED})),
            queued_count=Count(member, filter=Q(**{f"{member}__run__state": Run.State.QUEUED})),
        )
    )
    page = Paginator(rows.order_by("-created_at", "-pk"), STUDIES_PER_PAGE).get_page(request.GET.get("page"))
    writable = writable_teams(request.user)
    teams = {study.team_id for study in page.object_list} | {team.pk for team in writable}
    context = {"page": "studies", "page_obj": page, "writer": bool(writable), "several_teams": len(teams) > 1}
    return render(request, "studies/list.html", context)


@account_optional
@require_GET
@never_cache
def study(request: HttpRequest, slug: str) -> HttpResponse:
    """Show a study. An open page polls for its results and gets them, or 204 if nothing changed."""
    requested = get_study(request.user, slug)
    seen = seen_by(request.user, requested)
    polls = bool(request.headers.get("HX-Request"))
    if polls and request.headers.get("X-Seen") == seen.digest:
        return HttpResponse(status=204)
    context = _results(seen)
    if polls:
        return render(request, "studies/_results.html", context)
    role = role_in_team(request.user, requested.team_id)
    cancelled_at = requested.ended_at if requested.state == Study.State.CANCELLED else None
    context |= {
        "inside": role is not None,
        "writer": role in Membership.WRITERS,
        "some_paused": any(member.run.state == Run.State.PAUSED for member in seen.members),
        "visibilities": Study.Visibility.choices,
        "address": request.build_absolute_uri(reverse("study", args=[slug])),
        "undoable": cancelled_at is not None and cancelled_at > timezone.now() - UNDO_TIME,
        "undo_minutes": int(UNDO_TIME.total_seconds() // 60),
        "meta": study_preview(request, requested, len(seen.members)),
    }
    if not request.user.is_authenticated:
        context |= NO_FORMS
    return render(request, "studies/study.html", context)


def _results(seen: SeenStudy) -> dict[str, Any]:
    results = seen.results()
    document = seen.document(results)
    return {
        "page": "studies",
        "study": seen.study,
        "seen": seen,
        "refresh": REFRESH_SECONDS,
        "outcome": document.outcome,
        "question": document.lead[0] if results.plan.question else "",
        "charts": build_charts(results),
        # figures of the arms lead to each run
        "sections": [section for section in document.sections if section.name != "runs"],
        "compare": ",".join(member.run.slug for member in seen.members[:10] if member.run_id in seen.readable),
    }


@login_required
@require_POST
def study_request(request: HttpRequest, slug: str, action: str) -> HttpResponse:
    """Pause, resume or cancel the study with all of its runs, or undo its cancellation."""
    study = get_study_to_steer(request.user, slug)
    wanted = next(known_action for known_action in ACTIONS if known_action == action)
    try:
        change = do_control_study(study, wanted)
        level = messages.WARNING if change.refusals else messages.SUCCESS
        messages.add_message(request, level, change.message(wanted))
    except (RequestRefused, QuotaExceeded) as refusal:
        messages.warning(request, str(refusal))
    return redirect("study", slug)


@login_required
@require_POST
def study_visibility(request: HttpRequest, slug: str) -> HttpResponse:
    """Set who can read the study and, if requested, its runs."""
    study = get_study_to_steer(request.user, slug)
    value = request.POST.get("visibility", "")
    if value not in Study.Visibility.values:
        messages.warning(request, "Choose who can read the study. Nothing was changed.")
        return redirect("study", slug)
    visibility = Study.Visibility(value)
    count = do_share_study(study, visibility, with_runs=request.POST.get("runs") == "1")
    runs = f" So {'are' if count > 1 else 'is'} {count} of its runs." if count else ""
    messages.success(request, VISIBILITY_MESSAGES[visibility] + runs)
    return redirect("study", slug)


@account_optional
@require_GET
@never_cache
def study_export(request: HttpRequest, slug: str, kind: str) -> HttpResponse:
    """Send `markdown`, `svg` or `csv`, with the runs that the reader may see."""
    study = get_study(request.user, slug)
    if kind not in FORMATS:
        raise Http404(f"Unknown format of a study. Available: {', '.join(FORMATS)}.")
    text = exported(seen_by(request.user, study), kind, request.build_absolute_uri)
    media, ending = FORMATS[kind]
    response = HttpResponse(text, content_type=f"{media}; charset=utf-8")
    name = f"study-{slug}.{ending}"
    response["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    return response
