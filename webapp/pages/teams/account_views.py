"""Account page, and allauth's sign-up view with the invitation in its context."""

from __future__ import annotations

from typing import Any

from allauth.account.models import EmailAddress
from allauth.account.views import SignupView as AllauthSignupView
from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession
from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from webapp.core.formatting import plural
from webapp.teams import invitations
from webapp.teams.access import get_memberships, signed_in
from webapp.teams.actions import do_rename_user
from webapp.teams.browser_names import client_name
from webapp.teams.forms import NameForm
from webapp.teams.models import ApiToken
from webapp.teams.second_factor import second_factor_text
from webapp.teams.user_sessions import do_end_other_sessions, do_end_session, list_sessions


class SignupView(AllauthSignupView):
    """The sign-up form after an invitation link, or a page about invitations without one."""

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        return context | {"invitation": invitations.remembered(self.request)}

    def get_initial(self) -> dict[str, Any]:
        invitation = invitations.remembered(self.request)
        return {"email": invitation.email if invitation else ""}


signup = SignupView.as_view()


def _account(request: HttpRequest, form: NameForm) -> HttpResponse:
    user = signed_in(request)
    addresses = list(EmailAddress.objects.filter(user=user).order_by("-primary", "email"))
    context = {
        "page": "account",
        "form": form,
        "places": get_memberships(user),
        "address": next((item for item in addresses if item.primary or item.verified), None),
        "pending": next((item for item in addresses if not item.verified and item.email != user.email), None),
        "tokens": list(ApiToken.objects.open(timezone.now()).filter(user=user).select_related("team").order_by("pk")),
        "connected": list(SocialAccount.objects.filter(user=user)),
        "second_factor": second_factor_text(user),
        "sessions": list_sessions(user, request.session.session_key, timezone.now()),
    }
    return render(request, "account/account.html", context)


@login_required
@require_GET
@never_cache
def account(request: HttpRequest) -> HttpResponse:
    """Show name, e-mail address, password, second factor, sessions, teams and tokens of the user."""
    return _account(request, NameForm(user=request.user))


@login_required
@require_POST
def rename(request: HttpRequest) -> HttpResponse:
    """Change the user's name."""
    form = NameForm(request.POST, user=request.user)
    if not form.is_valid():
        response = _account(request, form)
        response.status_code = 422
        return response
    do_rename_user(signed_in(request), form.cleaned_data["username"])
    messages.success(request, f"Your name is now {request.user.get_username()}. Use it for your next login.")
    return redirect("account")


def _to_sessions() -> HttpResponse:
    return redirect(f"{reverse('account')}#sessions")


@login_required
@require_POST
def session_end(request: HttpRequest, pk: int) -> HttpResponse:
    """Log out one browser of the user; the current one like the button *Log out*."""
    session = UserSession.objects.filter(user=signed_in(request), pk=pk).first()
    if session is None:
        raise Http404("This session has ended already, or it is not yours.")
    if session.session_key == request.session.session_key:
        logout(request)
        return redirect("login")
    do_end_session(session)
    messages.success(request, f"{client_name(session.user_agent)} is logged out.")
    return _to_sessions()


@login_required
@require_POST
def sessions_end(request: HttpRequest) -> HttpResponse:
    """Log out all other browsers of the user."""
    ended = do_end_other_sessions(signed_in(request), request.session.session_key)
    messages.success(request, f"{plural(ended, 'other session')} ended.")
    return _to_sessions()
