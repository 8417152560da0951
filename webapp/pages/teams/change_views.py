"""What can be asked of a team: settings, members, invitations, tokens, shares. Each leads back to the team's page."""

from __future__ import annotations

from smtplib import SMTPException

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.core.mail import send_mail
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from webapp.runs.models import Run
from webapp.teams import actions
from webapp.teams.access import READ_ONLY, get_team, may_admin, may_write, require_admin, require_writer, signed_in
from webapp.teams.forms import InviteForm, TeamForm, TokenForm, problem
from webapp.teams.models import ApiToken, Invitation, Membership, Team, User
from webapp.trajectories.actions import do_revoke_share
from webapp.trajectories.models import ShareLink


def _back(team: Team, part: str) -> HttpResponse:
    return redirect(f"{reverse('team', args=[team.slug])}#{part}")


def _administered(request: HttpRequest, slug: str) -> Team:
    team = get_team(request.user, slug)
    require_admin(request.user, team.pk)
    return team


def _member(team: Team, username: str) -> User:
    found = team.memberships.select_related("user").filter(user__username=username).first()
    if found is None:
        raise Http404("Nobody of that name is in this team.")
    return found.user


@login_required
@require_POST
def team_settings(request: HttpRequest, slug: str) -> HttpResponse:
    """Name and retention."""
    team = _administered(request, slug)
    form = TeamForm(request.POST)
    if form.is_valid():
        actions.do_change_team(team, form.cleaned_data["name"], form.cleaned_data["retention_days"])
        messages.success(request, "Saved.")
    else:
        messages.warning(request, f"Nothing was changed. {problem(form)}")
    return _back(team, "settings")


@login_required
@require_POST
def member_role(request: HttpRequest, slug: str, username: str) -> HttpResponse:
    """Another role for a member."""
    team = _administered(request, slug)
    user = _member(team, username)
    role = request.POST.get("role", "")
    if role not in Membership.Role.values:
        messages.warning(request, "Choose one of the roles. Nothing was changed.")
        return _back(team, "members")
    try:
        actions.do_set_role(team, user, Membership.Role(role))
        messages.success(request, f"{user.username} is {Membership.Role(role).label.lower()} now.")
    except actions.TeamRefused as refusal:
        messages.warning(request, str(refusal))
    return _back(team, "members")


@login_required
@require_POST
def member_remove(request: HttpRequest, slug: str, username: str) -> HttpResponse:
    """Somebody out of the team; oneself needs no admin."""
    team = get_team(request.user, slug)
    user = _member(team, username)
    leaves = user.pk == request.user.pk
    if not leaves:
        require_admin(request.user, team.pk)
    try:
        actions.do_remove_member(team, user)
    except actions.TeamRefused as refusal:
        messages.warning(request, str(refusal))
        return _back(team, "members")
    if leaves:
        messages.success(request, f"You left {team.name}. What you made there stays there.")
        return redirect("teams")
    messages.success(request, f"{user.username} is out of the team. Their tokens for it are revoked.")
    return _back(team, "members")


@login_required
@require_POST
def invite(request: HttpRequest, slug: str) -> HttpResponse:
    """An invitation: sent, if an address was given, else a link to hand over."""
    team = _administered(request, slug)
    form = InviteForm(request.POST)
    if not form.is_valid():
        messages.warning(request, f"Nobody was invited. {problem(form)}")
        return _back(team, "invitations")
    email = form.cleaned_data["email"]
    if email and not settings.ECHOSCOPE_MAIL:
        messages.warning(request, "This site sends no mail. Leave the address empty and hand the link over yourself.")
        return _back(team, "invitations")
    made = actions.do_invite(team, signed_in(request), form.cleaned_data["role"], email)
    if not email:
        messages.success(request, "The invitation is made. Copy its link below and hand it over.")
        return _back(team, "invitations")
    try:
        _send(request, made)
        messages.success(request, f"The invitation is on its way to {email}.")
    except (SMTPException, OSError) as error:
        actions.do_revoke_invitation(made)
        messages.error(request, f"The mail could not be sent ({error}), so nobody was invited. Or hand over a link.")
    return _back(team, "invitations")


def _send(request: HttpRequest, invitation: Invitation) -> None:
    address = request.build_absolute_uri(reverse("invitation", args=[invitation.token]))
    text = render_to_string("teams/invitation_mail.txt", {"invitation": invitation, "address": address})
    send_mail(f"Echoscope: join {invitation.team.name}", text, None, [invitation.email])


@login_required
@require_POST
def invitation_revoke(request: HttpRequest, slug: str, token: str) -> HttpResponse:
    """An invitation nobody can use any more."""
    team = _administered(request, slug)
    found = Invitation.objects.filter(team=team, token=token).first()
    if found is None:
        raise Http404("There is no such invitation.")
    actions.do_revoke_invitation(found)
    messages.success(request, "The invitation is revoked. Its link leads nowhere.")
    return _back(team, "invitations")


@login_required
@require_POST
@never_cache
def token_create(request: HttpRequest, slug: str) -> HttpResponse:
    """A token; the only page that ever shows its secret."""
    team = get_team(request.user, slug)
    form = TokenForm(request.POST)
    if not form.is_valid():
        messages.warning(request, f"No token was made. {problem(form)}")
        return _back(team, "tokens")
    data = form.cleaned_data
    if ApiToken.WRITE in data["scopes"] and not may_write(request.user, team.pk):
        raise PermissionDenied(READ_ONLY)
    token, secret = actions.do_create_token(team, signed_in(request), data["name"], data["scopes"], form.expires_at())
    context = {"page": "team", "team": team, "token": token, "secret": secret, "site": request.build_absolute_uri("/")}
    return render(request, "teams/token.html", context)


@login_required
@require_POST
def token_revoke(request: HttpRequest, slug: str, prefix: str) -> HttpResponse:
    """One's own token, or anybody's for an admin."""
    team = get_team(request.user, slug)
    tokens = ApiToken.objects.filter(team=team, prefix=prefix)
    if not may_admin(request.user, team.pk):
        tokens = tokens.filter(user=signed_in(request))
    found = tokens.order_by("pk").first()
    if found is None:
        raise Http404("There is no such token, or it is not yours.")
    actions.do_revoke_token(found)
    messages.success(request, f"{found.name} is revoked. Programs that use it are refused from now on.")
    if request.POST.get("next") == "account":
        return redirect("account")
    return _back(team, "tokens")


@login_required
@require_POST
def share_revoke(request: HttpRequest, slug: str, token: str) -> HttpResponse:
    """A share link of any of the team's trajectories."""
    team = get_team(request.user, slug)
    require_writer(request.user, team.pk)
    runs = Run.objects.of_teams_of(request.user).filter(team=team)
    link = ShareLink.objects.filter(trajectory__run__in=runs, token=token).first()
    if link is None:
        raise Http404("There is no such link.")
    do_revoke_share(link)
    messages.success(request, "Revoked. The link shows nothing any more.")
    return _back(team, "shares")
