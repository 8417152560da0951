"""Stars, tags and comments on a trajectory's page, and the links of mentions.

Every change returns the panel to htmx and redirects to the page for browsers without JavaScript.
"""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from webapp.annotations import actions
from webapp.annotations.access import get_member_trajectory, get_own_comment
from webapp.annotations.models import MAX_COMMENT_LENGTH
from webapp.annotations.panel import panel_data
from webapp.teams.access import require_writer, signed_in
from webapp.teams.models import Membership
from webapp.teams.undo_notice import offer_undo
from webapp.trajectories.models import Trajectory


@login_required
@require_GET
@never_cache
def show(request: HttpRequest, slug: str) -> HttpResponse:
    """Show only the panel, for pages that contain it."""
    trajectory, role = get_member_trajectory(request.user, slug)
    if not _is_htmx(request):
        return redirect(f"{reverse('trajectory', args=[slug])}#annotations")
    return _panel(request, trajectory, role)


@login_required
@require_POST
def star(request: HttpRequest, slug: str) -> HttpResponse:
    """Star with `on=1`, remove the star with any other value."""
    trajectory, role = get_member_trajectory(request.user, slug)
    require_writer(request.user, trajectory.run.team_id)
    change = actions.do_star if request.POST.get("on") == "1" else actions.do_unstar
    change(trajectory, signed_in(request))
    return _done(request, trajectory, role)


@login_required
@require_POST
def tag(request: HttpRequest, slug: str) -> HttpResponse:
    """Add a tag."""
    trajectory, role = get_member_trajectory(request.user, slug)
    require_writer(request.user, trajectory.run.team_id)
    try:
        actions.do_tag(trajectory, signed_in(request), request.POST.get("tag", ""))
    except actions.AnnotationRefused as refusal:
        return _done(request, trajectory, role, problem=str(refusal))
    return _done(request, trajectory, role, saved="tag")


@login_required
@require_POST
def untag(request: HttpRequest, slug: str) -> HttpResponse:
    """Remove a tag."""
    trajectory, role = get_member_trajectory(request.user, slug)
    require_writer(request.user, trajectory.run.team_id)
    actions.do_untag(trajectory, request.POST.get("tag", ""))
    return _done(request, trajectory, role)


@login_required
@require_POST
def comment(request: HttpRequest, slug: str) -> HttpResponse:
    """Add a comment; `turn` is 1-based, empty for the whole trajectory."""
    trajectory, role = get_member_trajectory(request.user, slug)
    turn = request.POST.get("turn", "")
    index = int(turn) - 1 if turn.isascii() and turn.isdigit() and 0 < len(turn) < 7 and int(turn) > 0 else None
    try:
        created = actions.do_comment(trajectory, signed_in(request), request.POST.get("text", ""), index)
    except actions.AnnotationRefused as refusal:
        return _done(request, trajectory, role, problem=str(refusal))
    return _done(request, trajectory, role, saved="comment", to=created.address)


@login_required
@require_http_methods(["GET", "POST"])
@never_cache
def comment_edit(request: HttpRequest, slug: str) -> HttpResponse:
    """Edit a comment."""
    comment = get_own_comment(request.user, slug)
    trajectory, role = get_member_trajectory(request.user, comment.trajectory.slug)
    context: dict[str, Any] = {
        "comment": comment,
        "longest_comment": MAX_COMMENT_LENGTH,
        "text": comment.text,
        "page": "runs",
    }
    if request.method == "POST":
        context["text"] = request.POST.get("text", "")
        try:
            actions.do_edit_comment(comment, context["text"])
            return _done(request, trajectory, role, saved="edit", to=comment.address)
        except actions.AnnotationRefused as refusal:
            context["problem"] = str(refusal)
    if not _is_htmx(request):
        return render(request, "annotations/edit.html", context)
    response = render(request, "annotations/_edit.html", context | {"inside": True})
    response["HX-Retarget"] = f"#comment-{comment.slug}"
    response["HX-Reswap"] = "outerHTML"
    return response


@login_required
@require_POST
def comment_delete(request: HttpRequest, slug: str) -> HttpResponse:
    """Delete a comment."""
    comment = get_own_comment(request.user, slug)
    trajectory, role = get_member_trajectory(request.user, comment.trajectory.slug)
    offer_undo(request, "Comment deleted.", actions.do_delete_comment(comment, signed_in(request)))
    return _done(request, trajectory, role)


def _is_htmx(request: HttpRequest) -> bool:
    return bool(request.headers.get("HX-Request"))


def _panel(request: HttpRequest, trajectory: Trajectory, role: Membership.Role, problem: str = "") -> HttpResponse:
    context = {"annotations": panel_data(request.user, trajectory, role) | {"problem": problem, "notices": True}}
    return render(request, "annotations/_state.html", context)


def _done(
    request: HttpRequest,
    trajectory: Trajectory,
    role: Membership.Role,
    *,
    problem: str = "",
    saved: str = "",
    to: str = "",
) -> HttpResponse:
    """Return the current panel, or a redirect to the page."""
    if _is_htmx(request):
        response = _panel(request, trajectory, role, problem)
        if saved:
            response["HX-Trigger"] = f"annotations:{saved}"
        return response
    if problem:
        messages.warning(request, problem)
    return redirect(to or f"{reverse('trajectory', args=[trajectory.slug])}#annotations")
