"""The pages of one's own account that allauth does not have, and its sign-up with the invitation beside the form."""

from __future__ import annotations

from typing import Any

from allauth.account.models import EmailAddress
from allauth.account.views import SignupView as AllauthSignupView
from allauth.socialaccount.models import SocialAccount
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from webapp.teams import invitations
from webapp.teams.access import memberships_of, signed_in
from webapp.teams.actions import do_rename_user
from webapp.teams.forms import NameForm
from webapp.teams.models import ApiToken


class SignupView(AllauthSignupView):
    """The form, for those who followed an invitation; a word about invitations for everybody else."""

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        invitation = invitations.remembered(self.request)
        return super().get_context_data(**kwargs) | {"invitation": invitation}

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
        "places": memberships_of(user),
        "address": next((known for known in addresses if known.primary or known.verified), None),
        "pending": next((known for known in addresses if not known.verified and known.email != user.email), None),
        "tokens": list(ApiToken.objects.open(timezone.now()).filter(user=user).select_related("team").order_by("pk")),
        "connected": list(SocialAccount.objects.filter(user=user)),
    }
    return render(request, "account/account.html", context)


@login_required
@require_GET
@never_cache
def account(request: HttpRequest) -> HttpResponse:
    """Name, e-mail address, password, teams and tokens of whoever is logged in."""
    return _account(request, NameForm(user=request.user))


@login_required
@require_POST
def rename(request: HttpRequest) -> HttpResponse:
    """Another name."""
    form = NameForm(request.POST, user=request.user)
    if not form.is_valid():
        response = _account(request, form)
        response.status_code = 422
        return response
    do_rename_user(signed_in(request), form.cleaned_data["username"])
    messages.success(request, f"Your name is {request.user.get_username()} now. Log in with it next time.")
    return redirect("account")
