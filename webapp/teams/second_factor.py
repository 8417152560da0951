"""Second factors of a login, and their reset by an operator for a person who lost them."""

from __future__ import annotations

from allauth.mfa.models import Authenticator
from django.db import transaction
from django.db.models import Exists, OuterRef

from webapp.teams.models import User
from webapp.teams.user_sessions import do_end_other_sessions

LOGIN_FACTORS = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)
"""Kinds of factors that a login requires; recovery codes only replace them."""


def has_second_factor(user_column: str) -> Exists:
    """Return a condition, for `annotate`: the user of a row has a second factor."""
    return Exists(Authenticator.objects.filter(user=OuterRef(user_column), type__in=LOGIN_FACTORS))


def second_factor_text(user: User) -> str:
    """Return the second factors of a user, such as “authenticator app, 2 passkeys”; empty without one."""
    kinds = list(Authenticator.objects.filter(user=user, type__in=LOGIN_FACTORS).values_list("type", flat=True))
    passkeys = kinds.count(Authenticator.Type.WEBAUTHN)
    parts = ["authenticator app"] if Authenticator.Type.TOTP in kinds else []
    if passkeys:
        parts.append("1 passkey" if passkeys == 1 else f"{passkeys} passkeys")
    return ", ".join(parts)


@transaction.atomic
def do_reset_second_factor(user: User) -> tuple[int, int]:
    """Remove the user's second factors and recovery codes, and end all their sessions: a lost device may have one.

    Returns the numbers of removed factors and of ended sessions.
    """
    removed = Authenticator.objects.filter(user=user, type__in=LOGIN_FACTORS).count()
    Authenticator.objects.filter(user=user).delete()
    return removed, do_end_other_sessions(user, current_key=None)
