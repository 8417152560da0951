"""Starring, tagging and commenting on a trajectory's page, and the list of one's mentions.

Every change answers with the panel to htmx, and leads back to the page for browsers without JavaScript.
"""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from webapp.annotations import actions
from webapp.annotations.access import get_member_trajectory, get_own_comment
from webapp.annotations.models import MAX_COMMENT_LENGTH, Mention, Wish
from webapp.annotations.panel import facts, render_comment
from webapp.core.mail import mail_is_configured
from webapp.teams.access import require_writer
from webapp.teams.models import Membership, User
from webapp.trajectories.models import Trajectory

MENTIONS_PER_PAGE = 50


@login_required
@require_GET
@never_cache
def show(request: HttpRequest, slug: str) -> HttpResponse:
    """The panel by itself, for pages that show it already."""
    trajectory, role = get_member_trajectory(request.user, slug)
    if not _wants_panel(request):
        return redirect(f"{reverse('trajectory', args=[slug])}#annotations")
    return _panel(request, trajectory, role)


@login_required
@require_POST
def star(request: HttpRequest, slug: str) -> HttpResponse:
    """`on=1` stars, anything else takes the star away."""
    trajectory, role = get_member_trajectory(request.user, slug)
    require_writer(request.user, trajectory.run.team_id)
    change = actions.do_star if request.POST.get("on") == "1" else actions.do_unstar
    change(trajectory, _person(request))
    return _done(request, trajectory, role)


@login_required
@require_POST
def tag(request: HttpRequest, slug: str) -> HttpResponse:
    """Put a tag on it."""
    trajectory, role = get_member_trajectory(request.user, slug)
    require_writer(request.user, trajectory.run.team_id)
    try:
        actions.do_tag(trajectory, _person(request), request.POST.get("tag", ""))
    except actions.AnnotationRefused as refusal:
        return _done(request, trajectory, role, problem=str(refusal))
    return _done(request, trajectory, role, saved="tag")


@login_required
@require_POST
def untag(request: HttpRequest, slug: str) -> HttpResponse:
    """Take a tag away."""
    trajectory, role = get_member_trajectory(request.user, slug)
    require_writer(request.user, trajectory.run.team_id)
    actions.do_untag(trajectory, request.POST.get("tag", ""))
    return _done(request, trajectory, role)


@login_required
@require_POST
def comment(request: HttpRequest, slug: str) -> HttpResponse:
    """Say something about it; `turn` is 1-based, empty for the whole trajectory."""
    trajectory, role = get_member_trajectory(request.user, slug)
    turn = request.POST.get("turn", "")
    about = int(turn) - 1 if turn.isascii() and turn.isdigit() and 0 < len(turn) < 7 and int(turn) > 0 else None
    try:
        made = actions.do_comment(trajectory, _person(request), request.POST.get("text", ""), about)
    except actions.AnnotationRefused as refusal:
        return _done(request, trajectory, role, problem=str(refusal))
    return _done(request, trajectory, role, saved="comment", to=made.address)


@login_required
@require_http_methods(["GET", "POST"])
@never_cache
def comment_edit(request: HttpRequest, slug: str) -> HttpResponse:
    """Other words for one's comment."""
    own = get_own_comment(request.user, slug)
    trajectory, role = get_member_trajectory(request.user, own.trajectory.slug)
    context: dict[str, Any] = {"comment": own, "longest_comment": MAX_COMMENT_LENGTH, "text": own.text, "page": "runs"}
    if request.method == "POST":
        context["text"] = request.POST.get("text", "")
        try:
            actions.do_edit_comment(own, context["text"])
            return _done(request, trajectory, role, saved="edit", to=own.address)
        except actions.AnnotationRefused as refusal:
            context["problem"] = str(refusal)
    if not _wants_panel(request):
        return render(request, "annotations/edit.html", context)
    response = render(request, "annotations/_edit.html", context | {"inside": True})
    response["HX-Retarget"] = f"#comment-{own.slug}"
    response["HX-Reswap"] = "outerHTML"
    return response


@login_required
@require_POST
def comment_delete(request: HttpRequest, slug: str) -> HttpResponse:
    """Take a comment away."""
    own = get_own_comment(request.user, slug)
    trajectory, role = get_member_trajectory(request.user, own.trajectory.slug)
    actions.do_delete_comment(own)
    return _done(request, trajectory, role)


@login_required
@require_GET
@never_cache
def mentions(request: HttpRequest) -> HttpResponse:
    """Where somebody named the user."""
    found = Mention.objects.of(request.user).select_related(
        "comment__author", "comment__trajectory__run", "comment__trajectory__group"
    )
    page = Paginator(found.prefetch_related("comment__mentions__user"), MENTIONS_PER_PAGE).get_page(
        request.GET.get("page")
    )
    for mention in page.object_list:
        render_comment(mention.comment)
    wish = Wish.objects.filter(user=_person(request)).first()
    context = {
        "page": "mentions",
        "page_obj": page,
        "mentions": page.object_list,
        "mail": wish is None or wish.mail,
        "mail_configured": mail_is_configured(),
        "address": _person(request).email,
    }
    return render(request, "annotations/mentions.html", context)


@login_required
@require_GET
@never_cache
def mention(request: HttpRequest, slug: str) -> HttpResponse:
    """To the comment; from then on the mention is read."""
    found = Mention.objects.of(request.user).select_related("comment__trajectory").filter(slug=slug).first()
    if found is None:
        raise Http404("This mention is not there any more: the comment was changed or deleted.")
    actions.do_read_mentions(_person(request), slug)
    return redirect(found.comment.address)


@login_required
@require_POST
def mentions_read(request: HttpRequest) -> HttpResponse:
    """All of them are read."""
    actions.do_read_mentions(_person(request))
    return redirect("mentions")


@login_required
@require_POST
def mentions_mail(request: HttpRequest) -> HttpResponse:
    """Whether mentions are e-mailed."""
    wanted = request.POST.get("mail") == "1"
    actions.do_set_mention_mail(_person(request), wanted)
    messages.success(request, "Mentions are e-mailed to you." if wanted else "Mentions are no longer e-mailed to you.")
    return redirect("mentions")


def _person(request: HttpRequest) -> User:
    assert isinstance(request.user, User), "login_required lets nobody else in"
    return request.user


def _wants_panel(request: HttpRequest) -> bool:
    return bool(request.headers.get("HX-Request"))


def _panel(request: HttpRequest, trajectory: Trajectory, role: Membership.Role, problem: str = "") -> HttpResponse:
    context = {"annotations": facts(request.user, trajectory, role) | {"problem": problem}}
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
    """The panel as it is now, or the way back to the page."""
    if _wants_panel(request):
        response = _panel(request, trajectory, role, problem)
        if saved:
            response["HX-Trigger"] = f"annotations:{saved}"
        return response
    if problem:
        messages.warning(request, problem)
    return redirect(to or f"{reverse('trajectory', args=[trajectory.slug])}#annotations")
