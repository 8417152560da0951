"""Pages of teams and invitations."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from webapp.core.quotas import QuotaExceeded
from webapp.runs.models import Run
from webapp.teams import invitations
from webapp.teams.access import get_memberships, get_team, may_create_team, require_may_create_team, signed_in
from webapp.teams.actions import TeamRefused, do_accept_invitation, do_create_team
from webapp.teams.forms import TokenForm
from webapp.teams.models import ApiToken, Invitation, Membership, Team
from webapp.teams.removals import newest_removals
from webapp.teams.second_factor import has_second_factor
from webapp.trajectories.models import ShareLink

MAX_SHARES = 200
MAX_REMOVALS = 20


@login_required
@require_GET
@never_cache
def teams(request: HttpRequest) -> HttpResponse:
    """Show the user's teams; redirect to a single one unless `?all=1`."""
    memberships = get_memberships(request.user)
    if len(memberships) == 1 and not request.GET.get("all"):
        return redirect("team", memberships[0].team.slug)
    context = {"page": "team", "places": memberships, "may_create": may_create_team(request.user)}
    return render(request, "teams/list.html", context)


@login_required
@require_POST
def team_create(request: HttpRequest) -> HttpResponse:
    """Create a team with the user as its admin."""
    try:
        require_may_create_team(signed_in(request))
    except QuotaExceeded as refusal:
        messages.warning(request, str(refusal))
        return redirect(f"{reverse('teams')}?all=1")
    name = request.POST.get("name", "").strip()[: Team._meta.get_field("name").max_length]
    team = do_create_team(name, signed_in(request))
    messages.success(request, f"{team.name} created. You are its admin and can invite members.")
    return redirect("team", team.slug)


@login_required
@require_GET
@never_cache
def team(request: HttpRequest, slug: str) -> HttpResponse:
    """Show members, invitations, tokens, settings and shared content of a team."""
    requested = get_team(request.user, slug)
    now = timezone.now()
    memberships = requested.memberships.annotate(second_factor=has_second_factor("user"))
    members = list(memberships.select_related("user").order_by("user__username"))
    role = next(member.role for member in members if member.user_id == request.user.pk)
    admin = role == Membership.Role.ADMIN
    tokens = ApiToken.objects.open(now).filter(team=requested).select_related("user").order_by("pk")
    invited = Invitation.objects.open(now).filter(team=requested).select_related("author").order_by("pk")
    runs = Run.objects.listed_for(request.user).filter(team=requested)
    shares = ShareLink.objects.filter(trajectory__run__in=runs).annotate(ended=Q(expires_at__lte=now))
    shares = shares.select_related("author", "trajectory__group", "trajectory__run")
    context = {
        "page": "team",
        "team": requested,
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
        "shares": list(shares.order_by("-created_at")[:MAX_SHARES]),
        "shown_shares": MAX_SHARES,
        "open_runs": list(runs.filter(visibility=Run.Visibility.LINK).select_related("author").order_by("-pk")),
        "removals": newest_removals(signed_in(request), requested, MAX_REMOVALS, admin=admin),
        "shown_removals": MAX_REMOVALS,
        "several": len(get_memberships(request.user)) > 1,
    }
    return render(request, "teams/team.html", context)


@require_http_methods(["GET", "POST"])
@never_cache
def invitation(request: HttpRequest, token: str) -> HttpResponse:
    """Show the page of an invitation link: join with an existing account, or create one."""
    pending = invitations.open_invitation(token)
    if pending is None:
        return render(request, "teams/invitation_closed.html", status=404)
    if not request.user.is_authenticated:
        invitations.remember(request, pending)
        return render(request, "teams/invitation.html", {"invitation": pending})
    member = pending.team.memberships.filter(user_id=request.user.pk).first()
    if request.method == "POST" and member is None:
        try:
            do_accept_invitation(pending, signed_in(request))
        except TeamRefused as refusal:
            messages.warning(request, str(refusal))
            return redirect("runs")
        messages.success(request, f"You joined {pending.team.name} as {pending.get_role_display().lower()}.")
        return redirect("team", pending.team.slug)
    return render(request, "teams/invitation.html", {"invitation": pending, "member": member})
