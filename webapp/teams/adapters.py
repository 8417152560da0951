"""What django-allauth asks this site: who may sign up, what becomes of them, and how things are said.

Pages and addresses of accounts are in account_views.py and account_urls.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import redirect
from django.urls import reverse

from webapp.teams import invitations
from webapp.teams.actions import TeamRefused, do_accept_invitation
from webapp.teams.models import User

NO_MATCH = "This name and password do not belong together. Both are case-sensitive."


def _joining(request: HttpRequest, make: Callable[[], User]) -> User:
    """Make an account and spend the visitor's invitation on it: both happen, or nothing does."""
    invitation = invitations.remembered(request)
    try:
        with transaction.atomic():
            user = make()
            if invitation is None:
                raise TeamRefused("This visitor came by no invitation.")
            do_accept_invitation(invitation, user)
    except TeamRefused as refusal:  # somebody was quicker with the same link: the page of sign-ups says so
        raise ImmediateHttpResponse(redirect("account_signup")) from refusal
    request._invited_address = invitation.email  # type: ignore[attr-defined]
    invitations.forget(request)
    return user


class AccountAdapter(DefaultAccountAdapter):
    """Sign-up needs an invitation, and spends it."""

    error_messages = {
        **DefaultAccountAdapter.error_messages,
        "username_password_mismatch": NO_MATCH,
        "email_password_mismatch": "This e-mail address and password do not belong together.",
        "too_many_login_attempts": "Too many attempts failed. Wait five minutes, then try again.",
        "rate_limited": "That was too often in a short time. Wait a minute, then try again.",
        "email_taken": "Somebody has an account with this e-mail address. Log in with it, then follow the invitation.",
        "username_taken": "Somebody has this name already. Choose another one.",
        "incorrect_password": "This is not your current password.",
        "enter_current_password": "This is not your current password.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return invitations.remembered(request) is not None

    def save_user(self, request: HttpRequest, user: Any, form: Any, commit: bool = True) -> User:
        """A new account with a password: it exists together with its place in the team, or not at all."""
        save = super().save_user
        return _joining(request, lambda: save(request, user, form, commit=True))

    def is_email_verified(self, request: HttpRequest, email: str) -> bool:
        """An invitation that was sent to an address reached somebody who reads it."""
        known = getattr(request, "_invited_address", "")
        return (bool(known) and known.lower() == email.lower()) or super().is_email_verified(request, email)

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        return reverse("account")

    def get_email_verification_redirect_url(self, email_address: Any) -> str:
        return reverse("account" if self.request.user.is_authenticated else "login")

    def get_client_ip(self, request: HttpRequest) -> str:
        """For rate limits. Behind a socket file there is no address: then all share one limit."""
        try:
            address: str = super().get_client_ip(request)
        except PermissionDenied:
            return "unknown"
        return address


class SocialAdapter(DefaultSocialAccountAdapter):
    """The same for accounts that come from the organisation's own sign-in."""

    def save_user(self, request: HttpRequest, sociallogin: Any, form: Any = None) -> User:
        user: User = sociallogin.user

        def make() -> User:
            user.set_unusable_password()
            if form is None:
                AccountAdapter(request).populate_username(request, user)
            else:  # not AccountAdapter's: the invitation is spent here, once
                DefaultAccountAdapter(request).save_user(request, user, form, commit=False)
            sociallogin.save(request)
            return user

        return _joining(request, make)

    def get_connect_redirect_url(self, request: HttpRequest, socialaccount: Any) -> str:
        return reverse("account")
