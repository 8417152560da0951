"""Changes to a team: settings, members, invitations, tokens, shares. Each redirects to the team's page."""

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

from webapp.core.names import without_links
from webapp.core.quotas import QuotaExceeded
from webapp.runs.models import Run
from webapp.teams import actions
from webapp.teams.access import READ_ONLY, get_team, may_admin, may_write, require_admin, require_writer, signed_in
from webapp.teams.daily_use import Kind, do_count_use
from webapp.teams.forms import InviteForm, TeamForm, TokenForm, problem
from webapp.teams.models import ApiToken, Invitation, Membership, Team, User
from webapp.teams.undo_notice import offer_undo
from webapp.trajectories.actions import do_revoke_share
from webapp.trajectories.models import ShareLink


def _back(team: Team, part: str) -> HttpResponse:
    return redirect(f"{reverse('team', args=[team.slug])}#{part}")


def _administered(request: HttpRequest, slug: str) -> Team:
    team = get_team(request.user, slug)
    require_admin(request.user, team.pk)
    return team


def _member(team: Team, username: str) -> User:
    membership = team.memberships.select_related("user").filter(user__username=username).first()
    if membership is None:
        raise Http404("This team has no member of that name.")
    return membership.user


@login_required
@require_POST
def team_settings(request: HttpRequest, slug: str) -> HttpResponse:
    """Change name and retention."""
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
    """Change a member's role."""
    team = _administered(request, slug)
    user = _member(team, username)
    role = request.POST.get("role", "")
    if role not in Membership.Role.values:
        messages.warning(request, "Choose one of the roles. Nothing was changed.")
        return _back(team, "members")
    try:
        actions.do_set_role(team, user, Membership.Role(role))
        messages.success(request, f"{user.username} is now {Membership.Role(role).label.lower()}.")
    except actions.TeamRefused as refusal:
        messages.warning(request, str(refusal))
    return _back(team, "members")


@login_required
@require_POST
def member_remove(request: HttpRequest, slug: str, username: str) -> HttpResponse:
    """Remove a member, as an admin or oneself."""
    team = get_team(request.user, slug)
    user = _member(team, username)
    leaves = user.pk == request.user.pk
    if not leaves:
        require_admin(request.user, team.pk)
    try:
        removal = actions.do_remove_member(team, user, signed_in(request))
    except actions.TeamRefused as refusal:
        messages.warning(request, str(refusal))
        return _back(team, "members")
    if leaves:
        offer_undo(request, f"You left {team.name}. Your runs there are kept.", removal)
        return redirect("teams")
    offer_undo(request, f"{user.username} was removed from the team. Their tokens for it are revoked.", removal)
    return _back(team, "members")


@login_required
@require_POST
def invite(request: HttpRequest, slug: str) -> HttpResponse:
    """Create an invitation: sent by e-mail if an address is given, else a link to copy."""
    team = _administered(request, slug)
    form = InviteForm(request.POST)
    if not form.is_valid():
        messages.warning(request, f"No invitation was created. {problem(form)}")
        return _back(team, "invitations")
    email = form.cleaned_data["email"]
    if email and not settings.ECHOSCOPE_MAIL:
        messages.warning(request, "E-mail is not configured. Leave the address empty and pass the link on yourself.")
        return _back(team, "invitations")
    try:
        do_count_use(Kind.INVITATIONS, signed_in(request), "You have sent too many invitations today.")
    except QuotaExceeded as refusal:
        messages.warning(request, f"No invitation was created. {refusal}")
        return _back(team, "invitations")
    made = actions.do_invite(team, signed_in(request), form.cleaned_data["role"], email)
    if not email:
        messages.success(request, "Invitation created. Copy its link below and pass it on.")
        return _back(team, "invitations")
    try:
        _send(request, made)
        messages.success(request, f"Invitation sent to {email}.")
    except (SMTPException, OSError) as error:
        actions.do_revoke_invitation(made)
        messages.error(
            request,
            f"The e-mail could not be sent ({error}), so no invitation was created. Create a link instead.",
        )
    return _back(team, "invitations")


def _send(request: HttpRequest, invitation: Invitation) -> None:
    address = request.build_absolute_uri(reverse("invitation", args=[invitation.token]))
    team = without_links(invitation.team.name)
    text = render_to_string("teams/invitation_mail.txt", {"invitation": invitation, "team": team, "address": address})
    send_mail(f"Echoscope: join {team}", text, None, [invitation.email])


@login_required
@require_POST
def invitation_revoke(request: HttpRequest, slug: str, token: str) -> HttpResponse:
    """Revoke an invitation."""
    team = _administered(request, slug)
    invitation = Invitation.objects.filter(team=team, token=token).first()
    if invitation is None:
        raise Http404("This invitation does not exist.")
    removal = actions.do_revoke_invitation(invitation, signed_in(request))
    offer_undo(request, "Invitation revoked. Its link no longer works.", removal)
    return _back(team, "invitations")


@login_required
@require_POST
@never_cache
def token_create(request: HttpRequest, slug: str) -> HttpResponse:
    """Create a token; only this response shows its secret."""
    team = get_team(request.user, slug)
    form = TokenForm(request.POST)
    if not form.is_valid():
        messages.warning(request, f"No token was created. {problem(form)}")
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
    """Revoke one's own token, or as an admin any token of the team."""
    team = get_team(request.user, slug)
    tokens = ApiToken.objects.filter(team=team, prefix=prefix)
    if not may_admin(request.user, team.pk):
        tokens = tokens.filter(user=signed_in(request))
    api_token = tokens.order_by("pk").first()
    if api_token is None:
        raise Http404("This token does not exist, or it is not yours.")
    removal = actions.do_revoke_token(api_token, signed_in(request))
    offer_undo(request, f"{api_token.name} revoked. Programs can no longer use it.", removal)
    if request.POST.get("next") == "account":
        return redirect("account")
    return _back(team, "tokens")


@login_required
@require_POST
def share_revoke(request: HttpRequest, slug: str, token: str) -> HttpResponse:
    """Revoke a share link of the team."""
    team = get_team(request.user, slug)
    require_writer(request.user, team.pk)
    runs = Run.objects.listed_for(request.user).filter(team=team)
    link = ShareLink.objects.filter(trajectory__run__in=runs, token=token).first()
    if link is None:
        raise Http404("This link does not exist.")
    offer_undo(request, "Revoked. The link no longer works.", do_revoke_share(link, signed_in(request)))
    return _back(team, "shares")
