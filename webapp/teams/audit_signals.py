"""Audit entries about logins and accounts, from the signals of Django and allauth."""

from __future__ import annotations

from typing import Any

from allauth.account import signals as account
from allauth.mfa import signals as second_factor
from allauth.mfa.models import Authenticator
from allauth.socialaccount import signals as social
from django.contrib.admin.models import LogEntry
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver

from webapp.teams.adapters import user_id_of_login
from webapp.teams.audit import record
from webapp.teams.models import AuditAction, User


@receiver(user_logged_in)
def _logged_in(user: User, **kwargs: Any) -> None:
    record(AuditAction.LOGGED_IN, user=user)


@receiver(user_logged_out)
def _logged_out(user: User | None, **kwargs: Any) -> None:
    if user is not None:
        record(AuditAction.LOGGED_OUT, user=user)


@receiver(user_login_failed)
def _login_failed(credentials: dict[str, Any], **kwargs: Any) -> None:
    """Record a wrong password. Names without an account are not stored: people type their passwords there."""
    user_id = user_id_of_login(str(credentials.get("username") or credentials.get("email") or ""))
    user = None if user_id is None else User.objects.get(pk=user_id)
    record(AuditAction.LOGIN_FAILED, "wrong password" if user else "unknown name", user=user)


@receiver(second_factor.authentication_failed)
def _code_failed(user: User, **kwargs: Any) -> None:
    record(AuditAction.LOGIN_FAILED, "wrong code", user=user)


@receiver([account.password_changed, account.password_set, account.password_reset])
def _password_changed(user: User, **kwargs: Any) -> None:
    record(AuditAction.ACCOUNT_CHANGED, "the password", user=user)


@receiver(account.email_changed)
def _address_changed(user: User, **kwargs: Any) -> None:
    record(AuditAction.ACCOUNT_CHANGED, "the e-mail address", user=user)


@receiver(post_save, sender=Authenticator)
def _factor_added(instance: Authenticator, created: bool, **kwargs: Any) -> None:
    """Record a factor of any kind; allauth's signal is sent only after the transaction."""
    if created:
        record(AuditAction.ACCOUNT_CHANGED, f"second factor of {instance.user} added: {instance.get_type_display()}")


@receiver(post_delete, sender=Authenticator)
def _factor_removed(instance: Authenticator, **kwargs: Any) -> None:
    record(AuditAction.ACCOUNT_CHANGED, f"second factor of {instance.user} removed: {instance.get_type_display()}")


@receiver([social.social_account_added, social.social_account_removed])
def _connection_changed(**kwargs: Any) -> None:
    record(AuditAction.ACCOUNT_CHANGED, "the connection with single sign-on")


@receiver(post_save, sender=LogEntry)
def _administered(instance: LogEntry, created: bool, **kwargs: Any) -> None:
    """Record a change under /admin/."""
    if created:
        subject = f"{instance.get_action_flag_display()}: {instance.content_type}, {instance.object_repr}"
        record(AuditAction.ADMINISTERED, subject, user=instance.user)
