"""Adapters for django-allauth: sign-up by invitation only, addresses of clients, names and error messages."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core import context
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.db import transaction
from django.db.models import Q
from django.http import HttpRequest
from django.shortcuts import redirect
from django.urls import reverse

from webapp.core.mail import mail_is_configured
from webapp.teams import invitations
from webapp.teams.actions import TeamRefused, do_accept_invitation
from webapp.teams.browser_names import client_name
from webapp.teams.client_address import client_address
from webapp.teams.models import User

logger = logging.getLogger(__name__)
SITE_NAME = "Echoscope"
NO_MATCH = "Wrong name or password. Both are case-sensitive."


def _create_and_join(request: HttpRequest, make: Callable[[], User]) -> User:
    """Create an account and accept the visitor's invitation with it, in one transaction."""
    invitation = invitations.remembered(request)
    try:
        with transaction.atomic():
            user = make()
            if invitation is None:
                raise TeamRefused("The session has no invitation.")
            do_accept_invitation(invitation, user)
    except TeamRefused as refusal:  # the link was used concurrently; the sign-up page explains it
        raise ImmediateHttpResponse(redirect("account_signup")) from refusal
    request._invited_address = invitation.email  # type: ignore[attr-defined]
    invitations.forget(request)
    return user


def user_id_of_login(login: str) -> int | None:
    """Return the primary key of the account with this name or e-mail address, ignoring case."""
    if not login or "\0" in login:
        return None
    named = Q(username__iexact=login) | Q(email__iexact=login) | Q(emailaddress__email__iexact=login)
    return User.objects.filter(named).order_by("pk").values_list("pk", flat=True).first()


class AccountAdapter(DefaultAccountAdapter):
    """Sign-up that requires an invitation and uses it up."""

    error_messages = {
        **DefaultAccountAdapter.error_messages,
        "username_password_mismatch": NO_MATCH,
        "email_password_mismatch": "Wrong e-mail address or password.",
        "too_many_login_attempts": "Too many failed attempts. Wait five minutes, then try again.",
        "rate_limited": "Too many requests. Wait a minute, then try again.",
        "email_taken": "An account with this e-mail address exists. Log in with it, then follow the invitation.",
        "username_taken": "This name is already taken. Choose another one.",
        "incorrect_password": "This is not your current password.",
        "enter_current_password": "This is not your current password.",
    }

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Send an account's mail. Without a mail server none is composed: its links would end up in a log."""
        if mail_is_configured():
            super().send_mail(template_prefix, email, context)

    def send_notification_mail(
        self, template_prefix: str, user: Any, context: dict[str, Any] | None = None, email: str | None = None
    ) -> None:
        """Notify the account's owner of a change of access, which stays if the mail cannot be sent."""
        try:
            super().send_notification_mail(template_prefix, user, context, email)
        except OSError:  # also smtplib's errors
            logger.exception("mail about a change of access was not sent")

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return invitations.remembered(request) is not None

    def save_user(self, request: HttpRequest, user: Any, form: Any, commit: bool = True) -> User:
        """Create an account with a password and its membership in one transaction."""
        save = super().save_user
        return _create_and_join(request, lambda: save(request, user, form, commit=True))

    def is_email_verified(self, request: HttpRequest, email: str) -> bool:
        """Return True also for the address to which an accepted invitation was sent."""
        invited: str = getattr(request, "_invited_address", "")
        return (bool(invited) and invited.lower() == email.lower()) or super().is_email_verified(request, email)

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        return reverse("account")

    def get_email_verification_redirect_url(self, email_address: Any) -> str:
        return reverse("account" if self.request.user.is_authenticated else "login")

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: Any) -> str:
        """Return the account as key, so that failed logins by name and by e-mail address count together."""
        login = str(credentials.get("email") or credentials.get("username") or "").strip().lower()
        user_id = user_id_of_login(login)
        return f"login:{login}" if user_id is None else f"user:{user_id}"

    def get_client_ip(self, request: HttpRequest) -> str:
        return client_address(request)


class SecondFactorAdapter(DefaultMFAAdapter):
    """Names and messages of second factors."""

    error_messages = {
        **DefaultMFAAdapter.error_messages,
        "incorrect_code": "This code is wrong, or it was used before.",
    }

    def get_totp_issuer(self) -> str:
        return SITE_NAME

    def get_public_key_credential_rp_entity(self) -> dict[str, str]:
        entity: dict[str, str] = super().get_public_key_credential_rp_entity()
        return entity | {"name": SITE_NAME}

    def generate_authenticator_name(self, user: Any, type: Any) -> str:
        """Return the browser that adds a passkey, which in most cases stores it."""
        return client_name(context.request.headers.get("User-Agent", ""))


class SocialAdapter(DefaultSocialAccountAdapter):
    """Sign-up by invitation for accounts of the organisation's single sign-on."""

    def save_user(self, request: HttpRequest, sociallogin: Any, form: Any = None) -> User:
        user: User = sociallogin.user

        def make() -> User:
            user.set_unusable_password()
            if form is None:
                AccountAdapter(request).populate_username(request, user)
            else:  # not AccountAdapter's, which would accept the invitation a second time
                DefaultAccountAdapter(request).save_user(request, user, form, commit=False)
            sociallogin.save(request)
            return user

        return _create_and_join(request, make)

    def get_connect_redirect_url(self, request: HttpRequest, socialaccount: Any) -> str:
        return reverse("account")
