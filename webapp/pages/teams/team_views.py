"""The pages of teams and invitations: who is in it, what programs may do, what others see. Changes: change_views.py."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from webapp.runs.models import Run
from webapp.teams import invitations
from webapp.teams.access import NO_TEAM, get_team, may_create_team, memberships_of, signed_in
from webapp.teams.actions import TeamRefused, do_accept_invitation, do_create_team
from webapp.teams.forms import TokenForm
from webapp.teams.models import ApiToken, Invitation, Membership, Team
from webapp.trajectories.models import ShareLink

SHOWN_SHARES = 200


@login_required
@require_GET
@never_cache
def teams(request: HttpRequest) -> HttpResponse:
    """The teams one is in; the only one opens at once unless a choice was asked for (`?all=1`)."""
    found = memberships_of(request.user)
    if len(found) == 1 and not request.GET.get("all"):
        return redirect("team", found[0].team.slug)
    context = {"page": "team", "places": found, "may_create": may_create_team(request.user)}
    return render(request, "teams/list.html", context)


@login_required
@require_POST
def team_create(request: HttpRequest) -> HttpResponse:
    """A new team, with whoever asked as its admin."""
    if not may_create_team(request.user):
        raise PermissionDenied(NO_TEAM)
    name = request.POST.get("name", "").strip()[: Team._meta.get_field("name").max_length]
    team = do_create_team(name, signed_in(request))
    messages.success(request, f"{team.name} exists, and you are its admin. Invite the others.")
    return redirect("team", team.slug)


@login_required
@require_GET
@never_cache
def team(request: HttpRequest, slug: str) -> HttpResponse:
    """Members, invitations, tokens, settings, and everything of the team that others can see."""
    found = get_team(request.user, slug)
    now = timezone.now()
    members = list(found.memberships.select_related("user").order_by("user__username"))
    role = next(member.role for member in members if member.user_id == request.user.pk)
    admin = role == Membership.Role.ADMIN
    tokens = ApiToken.objects.open(now).filter(team=found).select_related("user").order_by("pk")
    invited = Invitation.objects.open(now).filter(team=found).select_related("author").order_by("pk")
    runs = Run.objects.of_teams_of(request.user).filter(team=found)
    shares = ShareLink.objects.filter(trajectory__run__in=runs).annotate(ended=Q(expires_at__lte=now))
    shares = shares.select_related("author", "trajectory__group", "trajectory__run")
    context = {
        "page": "team",
        "team": found,
        "members": members,
        "admin": admin,
        "writer": role in Membership.WRITERS,
        "alone": admin and sum(member.role == Membership.Role.ADMIN for member in members) == 1,
        "roles": Membership.Role.choices,
        "mail": settings.ECHOSCOPE_MAIL,
        "invitations": [
            (invitation, request.build_absolute_uri(reverse("invitation", args=[invitation.token])))
            for invitation in (invited if admin else [])
        ],
        "tokens": list(tokens if admin else tokens.filter(user=signed_in(request))),
        "lasts": TokenForm.LASTS,
        "shares": list(shares.order_by("-created_at")[:SHOWN_SHARES]),
        "shown_shares": SHOWN_SHARES,
        "open_runs": list(runs.filter(visibility=Run.Visibility.LINK).select_related("author").order_by("-pk")),
        "several": len(memberships_of(request.user)) > 1,
    }
    return render(request, "teams/team.html", context)


@require_http_methods(["GET", "POST"])
@never_cache
def invitation(request: HttpRequest, token: str) -> HttpResponse:
    """What an invitation's link shows: join with the account one has, or make one."""
    found = invitations.open_invitation(token)
    if found is None:
        return render(request, "teams/invitation_closed.html", status=404)
    if not request.user.is_authenticated:
        invitations.remember(request, found)
        return render(request, "teams/invitation.html", {"invitation": found})
    member = found.team.memberships.filter(user_id=request.user.pk).first()
    if request.method == "POST" and member is None:
        try:
            do_accept_invitation(found, signed_in(request))
        except TeamRefused as refusal:
            messages.warning(request, str(refusal))
            return redirect("runs")
        messages.success(request, f"You are in {found.team.name} now, as {found.get_role_display().lower()}.")
        return redirect("team", found.team.slug)
    return render(request, "teams/invitation.html", {"invitation": found, "member": member})
